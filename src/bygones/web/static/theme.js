// Runs before the page is drawn, so that the theme does not flash.
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("bygones-theme"); } catch { /* private */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
