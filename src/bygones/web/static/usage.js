// The usage page: values at the pointer, and the chart as a picture.
import { createElement, showToast } from "./html.js";

const chart = document.querySelector("svg.chart");
const tip = createElement("div", { className: "chart-tip", hidden: true });
if (chart) {
  document.body.append(tip);
  for (const title of chart.querySelectorAll("rect > title")) {
    const rect = title.parentElement;
    rect.dataset.tip = title.textContent;
    rect.setAttribute("aria-label", title.textContent);
    title.remove();
  }
  chart.addEventListener("pointermove", (event) => {
    const text = event.target.dataset?.tip;
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const left = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8);
    tip.style.translate = `${left}px ${event.clientY - tip.offsetHeight - 10}px`;
  });
  chart.addEventListener("pointerleave", () => { tip.hidden = true; });
}

// The server draws the chart with its own colors; the browser turns it into pixels.
document.querySelector('[data-act="png"]')?.addEventListener("click", async () => {
  try {
    const response = await fetch(`/usage.svg${location.search}`);
    const svg = await response.text();
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
    await image.decode();
    const canvas = createElement("canvas", { width: image.width * 2, height: image.height * 2 });
    const context = canvas.getContext("2d");
    context.fillStyle = "#fff";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    const link = createElement("a", { download: "usage.png", href: canvas.toDataURL("image/png") });
    link.click();
  } catch { showToast("The image could not be created"); }
});
