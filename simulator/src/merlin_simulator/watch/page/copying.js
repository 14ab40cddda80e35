// Buttons that copy what is beside them.

import { say } from "./elements.js";

const COPIED_MS = 1500;

export function copyButtons(root) {
  for (const button of root.querySelectorAll("[data-copies]")) {
    button.addEventListener("click", () => copy(button, root.querySelector(`#${button.dataset.copies}`)));
  }
}

async function copy(button, code) {
  try {
    await navigator.clipboard.writeText(code.textContent);
    say(button, "Copied");
  } catch {
    getSelection().selectAllChildren(code);
    say(button, "Selected");
  }
  setTimeout(() => say(button, "Copy"), COPIED_MS);
}
