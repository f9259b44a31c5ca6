// The calls that led to blocks, with the bytes below each: the tree of `blocks --tree`. Which frames it tells the core has
// decided (the column stacks.told); plumbing of PyTorch and of packages is not among them.

// { kind, text, title, library, bytes, blocks, parent, depth, children }; kind: "root", "call", "work", "unknown", "before"
function node(kind, text, title, parent) {
  return { kind, text, title, library: false, bytes: 0, blocks: 0, parent, depth: parent ? parent.depth + 1 : 0, children: [], index: new Map() };
}

function child(parent, key, make) {
  let found = parent.index.get(key);
  if (!found) {
    parent.index.set(key, (found = make()));
    parent.children.push(found);
  }
  return found;
}

const baseName = (file) => file.slice(file.lastIndexOf("/") + 1);

// Where each stack's blocks are put: made once a stack.
function placer(recording, root) {
  const places = new Map();
  const { texts } = recording;
  const ofStack = (stack) => {
    let at = places.get(stack);
    if (at) return at;
    at = root;
    for (const frame of recording.shownFrames(stack)) {
      const parent = at;
      at = child(parent, `${frame.file}\n${frame.line}\n${frame.function}`, () => {
        const made = node(
          "call",
          `${frame.function} ${baseName(frame.file)}:${frame.line}`,
          `${frame.file}:${frame.line} in ${frame.function}`,
          parent,
        );
        made.library = frame.library;
        return made;
      });
    }
    places.set(stack, at);
    return at;
  };
  return ({ stack, work, autograd, operator }, block) => {
    const at = ofStack(stack[block]);
    if (!work[block]) return at;
    const [one, other] = [texts[autograd[block]], texts[operator[block]]];
    const text = one && other ? `${one} (${other})` : one || other;
    if (text) return child(at, `work ${text}`, () => node("work", text, text, at));
    return at === root ? child(root, "unknown", () => node("unknown", "no stack", "no stack was recorded", root)) : at;
  };
}

// Of these blocks, and of bytes that are in no block.
export async function callTree(recording, blocks, rest) {
  const { device } = recording;
  const names = { stack: "stack", work: "work", autograd: "node", operator: "operator" };
  const columns = {};
  for (const [key, name] of Object.entries(names)) columns[key] = await device.column(`block.${name}`, Uint32Array);
  const root = node("root", "all", "all calls", null);
  const place = placer(recording, root);
  for (const block of blocks) {
    const size = device.size[block];
    for (let at = place(columns, block); at; at = at.parent) {
      at.bytes += size;
      at.blocks++;
    }
  }
  if (rest) {
    root.bytes += rest;
    child(root, "before", () => node("before", "from before the recording", "allocated before the recording began", root)).bytes = rest;
  }
  sort(root);
  return root;
}

// The largest first. The tree may be as deep as the deepest stack: no recursion.
function sort(root) {
  const waiting = [root];
  for (let at = waiting.pop(); at; at = waiting.pop()) {
    at.children.sort((a, b) => b.bytes - a.bytes || (a.title < b.title ? -1 : 1));
    for (const one of at.children) waiting.push(one);
  }
}
