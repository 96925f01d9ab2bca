// The page of a file: the slider over turns, and keys.
import { onKey } from "./app.js";

const slider = document.querySelector(".versions input[type=range]");
const form = slider?.form;
if (form) {
  const labels = JSON.parse(slider.dataset.labels);
  const output = form.querySelector("output");
  slider.addEventListener("input", () => { output.value = `${labels[slider.value - 1]} (${slider.value} of ${slider.max})`; });
  slider.addEventListener("change", () => { sessionStorage.setItem("slider", "1"); form.requestSubmit(); });
  // The keyboard stays on the slider on the next page.
  if (sessionStorage.getItem("slider")) { sessionStorage.removeItem("slider"); slider.focus(); }
  // Turns of another branch have other numbers.
  form.querySelector("select")?.addEventListener("change", () => { slider.disabled = true; form.requestSubmit(); });
}

const follow = (selector) => () => document.querySelector(selector)?.click();
onKey("[", "Older version", follow('a[rel="prev"]'));
onKey("]", "Newer version", follow('a[rel="next"]'));
onKey("v", "Next view of the file", () => {
  const tabs = [...document.querySelectorAll(".tabs a")];
  tabs[(tabs.findIndex((tab) => tab.hasAttribute("aria-current")) + 1) % tabs.length]?.click();
});
