// Making and changing elements. Text is only ever set as text: what archives, models and
// containers say never becomes markup.

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "text") made.textContent = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// Sets text only where it differs, so that nothing is laid out again for nothing.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function mark(node, name, value) {
  const text = String(value);
  if (node.dataset[name] !== text) node.dataset[name] = text;
}

// Brings the children of parent to the order of nodes, moving only what is out of place.
export function arrange(parent, nodes) {
  nodes.forEach((node, index) => {
    if (parent.children[index] !== node) parent.insertBefore(node, parent.children[index] ?? null);
  });
  while (parent.children.length > nodes.length) parent.lastElementChild.remove();
}

// A name that loses its beginning when it is too long: what tells models apart is mostly at the end.
export function nameOf(text) {
  return element("span", { class: "name" }, element("bdi", { dir: "ltr", text: text.replace(/\.tar\.gz$/, "") }));
}
