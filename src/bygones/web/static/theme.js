// Runs before the page is drawn, so that the theme does not flash and nothing moves.
(() => {
  document.documentElement.classList.add("scripted");
  let chosen = null;
  try { chosen = localStorage.getItem("bygones-theme"); } catch { /* private */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
