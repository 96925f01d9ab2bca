// Runs before anything is drawn, so that a chosen theme does not flash.
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("bygones-theme"); } catch { /* private */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
