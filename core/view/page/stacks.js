// Modules and collectives, which follow from whole stacks: as core/model/condition_stacks.c has them.

import { several, UNKNOWN } from "./truth.js";

const plainName = (name) => name.slice(name.lastIndexOf(".") + 1);
const fits = (name, clause) => (clause.compare === "~" ? name.includes(clause.text) : name === clause.text);

function callsModule(frame) {
  return ["_call_impl", "_wrapped_call_impl"].includes(plainName(frame.function)) && frame.file.endsWith("torch/nn/modules/module.py");
}

// "a.<locals>.Net.forward": "Net"; "": the name is not qualified, or that of a function within a function
function classOf(name) {
  const parts = name.split(".");
  const found = parts.length > 1 ? parts.at(-2) : "";
  return found.startsWith("<") ? "" : found;
}

// Of a stack, innermost frame first: the class that defines the forward() by which a module is called.
export function moduleOf(frames, clause) {
  let called = null;
  let any = false;
  let unnamed = false;
  for (const frame of frames) {
    if (callsModule(frame)) {
      if (called) {
        const name = classOf(called.function);
        if (name) any ||= fits(name, clause);
        else unnamed = true;
      }
      called = null;
    } else if (plainName(frame.function) === "forward") {
      called = frame;
    }
  }
  if (unnamed && !any) return UNKNOWN; // CPython before 3.11
  return frames.length ? several(any, clause) : UNKNOWN;
}

// "all_reduce" of Python is "allreduce" of C++.
const bare = (name) => name.replaceAll("_", "");

function isDistributed({ file }) {
  return file.endsWith("torch/distributed/distributed_c10d.py") || file.includes("torch/distributed/_functional_collectives");
}

// native: the names of collectives on the native stack; null: there is none
export function collectiveOf(frames, native, clause) {
  const plain = { ...clause, text: bare(clause.text) };
  const names = frames.filter(isDistributed).map((frame) => plainName(frame.function));
  let any = names.some((name) => fits(bare(name), plain));
  if (!native) return any ? several(true, clause) : UNKNOWN; // C++ may have called one
  names.push(...native);
  any ||= native.some((name) => fits(bare(name), plain));
  if (!names.length) any = fits("none", clause);
  return several(any, clause);
}
