// Of which blocks a condition holds. A clause is false, true, or unknown where the recording does not have the fact; `and`,
// `or` and `not` are those of Kleene's logic (core/model/condition.h).

import { collectiveOf, moduleOf } from "./stacks.js";
import { FALSE, several, TRUE, truth, UNKNOWN } from "./truth.js";

const FRAMES_MOST = 1024;

const COMPARE = {
  "=": (a, b) => a === b,
  "!=": (a, b) => a !== b,
  "<": (a, b) => a < b,
  "<=": (a, b) => a <= b,
  ">": (a, b) => a > b,
  ">=": (a, b) => a >= b,
};

function textFits(text, clause) {
  if (clause.compare === "~") return truth(text.includes(clause.text));
  return truth((text === clause.text) === (clause.compare === "="));
}

// `*` in a name is any text. As few characters as will do: where what follows fails, one more, from the last `*` on.
function matches(list, pattern, any, fits) {
  let at = 0;
  let place = 0;
  let resume = -1;
  let resumeAt = 0;
  while (at < list.length) {
    if (place < pattern.length && pattern[place] === any) {
      resume = ++place;
      resumeAt = at;
    } else if (place < pattern.length && fits(list[at], pattern[place])) {
      at++;
      place++;
    } else if (resume >= 0) {
      place = resume;
      at = ++resumeAt;
    } else {
      return false;
    }
  }
  while (place < pattern.length && pattern[place] === any) place++;
  return place === pattern.length;
}

function nameFits(name, clause) {
  return clause.compare === "~" ? name.includes(clause.text) : matches(name, clause.text, "*", (a, b) => a === b);
}

// Whether "/a/b/train.py" is meant by "train.py", "b/train.py" or itself.
function isFile(path, name) {
  return path.endsWith(name) && (path.length === name.length || path[path.length - name.length - 1] === "/" || name[0] === "/");
}

function frameFits(frame, clause) {
  const contains = clause.compare === "~";
  if (clause.fact === "function") {
    if (contains) return frame.function.includes(clause.text);
    return frame.function === clause.text || frame.function.slice(frame.function.lastIndexOf(".") + 1) === clause.text;
  }
  return (contains ? frame.file.includes(clause.text) : isFile(frame.file, clause.text)) && (!clause.line || frame.line === clause.line);
}

// What is the same for all blocks with one key is judged once.
function once(keys, judge) {
  const known = new Map();
  return (block) => {
    const key = keys[block];
    let found = known.get(key);
    if (found === undefined) known.set(key, (found = judge(key)));
    return found;
  };
}

async function judgeOf(clause, recording) {
  const { device, runs, texts } = recording;
  const column = (name, Type = Uint32Array) => device.column(`block.${name}`, Type);
  const compare = COMPARE[clause.compare];
  const number = clause.number === undefined ? 0 : Number(clause.number);
  switch (clause.fact) {
    case "size":
      return (block) => truth(compare(device.size[block], number));
    case "requested": {
      const requested = await column("requested", Float64Array);
      return (block) => (requested[block] ? truth(compare(requested[block], number)) : UNKNOWN);
    }
    case "stream": {
      const stream = await column("stream", Float64Array);
      return (block) => truth(compare(stream[block], number));
    }
    case "step":
      return (block) => truth(compare(runs.stepAt(device.alloc[block]), number));
    case "address": {
      const [low, high] = [await column("address.low"), await column("address.high")];
      return (block) => truth(compare((BigInt(high[block]) << 32n) | BigInt(low[block]), clause.number));
    }
    case "category":
      return once(device.category, (category) => textFits(device.categories[category], clause));
    case "phase":
      return (block) => textFits(runs.phaseAt(device.alloc[block]), clause);
    case "dtype":
    case "shape":
      return once(await column("tensor"), (text) => {
        const tensor = recording.tensors.get(text);
        if (!tensor) return UNKNOWN;
        if (clause.fact === "dtype") return textFits(tensor.dtype, clause);
        const fits = matches(tensor.shape, clause.sizes, "...", (size, wanted) => wanted === "*" || size === wanted);
        return truth(fits === (clause.compare === "="));
      });
    case "line":
    case "function":
      return once(await column("stack"), (stack) => {
        const frames = recording.stack(stack).slice(0, FRAMES_MOST);
        return frames.length
          ? several(
              frames.some((frame) => frameFits(frame, clause)),
              clause,
            )
          : UNKNOWN;
      });
    case "module":
      return once(await column("stack"), (stack) => moduleOf(recording.stack(stack).slice(0, FRAMES_MOST), clause));
    case "collective": {
      const [stack, native, names] = [await column("stack"), await column("native", Uint8Array), await column("collective")];
      const judge = (block) => {
        const frames = recording.stack(stack[block]).slice(0, FRAMES_MOST);
        return collectiveOf(frames, native[block] ? texts[names[block]].split(" ").filter(Boolean) : null, clause);
      };
      const known = new Map();
      return (block) => {
        const key = (stack[block] * texts.length + names[block]) * 2 + native[block];
        if (!known.has(key)) known.set(key, judge(block));
        return known.get(key);
      };
    }
    case "operator":
    case "node": {
      const native = await column("native", Uint8Array);
      const bare = clause.fact === "operator" ? { ...clause, text: clause.text.replace(/^aten::/, "") } : clause;
      const fits = once(await column(clause.fact), (text) => (text ? textFits(texts[text], bare) : truth(clause.compare === "!=")));
      return (block) => (native[block] ? fits(block) : UNKNOWN);
    }
    default: {
      const lists = await device.lists(`block.${clause.fact}s`); // names, labels, ranges
      const fits =
        clause.fact === "name" || clause.fact === "range"
          ? nameFits
          : (label) => (clause.compare === "~" ? label.includes(clause.text) : label === clause.text);
      return lists
        ? (block) =>
            several(
              lists(block).some((text) => fits(texts[text], clause)),
              clause,
            )
        : () => UNKNOWN;
    }
  }
}

// A function that says of a block FALSE, TRUE or UNKNOWN.
export async function compileCondition(tree, recording) {
  if (tree.kind === "clause") return judgeOf(tree, recording);
  const left = await compileCondition(tree.left, recording);
  if (tree.kind === "not")
    return (block) => {
      const found = left(block);
      return found === UNKNOWN ? UNKNOWN : truth(found === FALSE);
    };
  const right = await compileCondition(tree.right, recording);
  const decides = tree.kind === "and" ? FALSE : TRUE; // it decides alone
  return (block) => {
    const one = left(block);
    if (one === decides) return one;
    const other = right(block);
    return other === decides || one !== UNKNOWN ? other : UNKNOWN;
  };
}
