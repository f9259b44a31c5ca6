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

// The collective that a frame tells of; null: none. FSDP2 makes the collectives' buffers itself.
function collectiveOfFrame(frame) {
  const { file } = frame;
  const name = plainName(frame.function);
  if (file.endsWith("torch/distributed/distributed_c10d.py") || file.includes("torch/distributed/_functional_collectives")) return name;
  if (!file.endsWith("torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py")) return null;
  if (name.startsWith("foreach_all_gather")) return "all_gather";
  return name.startsWith("foreach_reduce") ? "reduce_scatter" : null;
}

// native: the names of collectives on the native stack; null: there is none
export function collectiveOf(frames, native, clause) {
  const plain = { ...clause, text: bare(clause.text) };
  const names = frames.map(collectiveOfFrame).filter((name) => name !== null);
  let any = names.some((name) => fits(bare(name), plain));
  if (!native) return any ? several(true, clause) : UNKNOWN; // C++ may have called one
  names.push(...native);
  any ||= native.some((name) => fits(bare(name), plain));
  if (!names.length) any = fits("none", clause);
  return several(any, clause);
}
