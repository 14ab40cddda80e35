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

// A list of terms, values and remarks; made once, then only its texts change.
export function pairs(parent, rows) {
  while (parent.children.length > rows.length) parent.lastElementChild.remove();
  rows.forEach(([term, value, remark, bad], index) => {
    parent.children[index] ?? parent.append(
      element("div", {}, element("dt"), element("dd", { class: "value" }), element("dd", { class: "remark" })),
    );
    const [first, second, third] = parent.children[index].children;
    say(first, term);
    say(second, value);
    if (second.title !== value) second.title = value;
    say(third, remark ?? "");
    mark(parent.children[index], "bad", Boolean(bad));
  });
}
