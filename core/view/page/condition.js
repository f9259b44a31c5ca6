// Conditions over blocks in the words of `gpumem blocks --where`: from text to a tree. The grammar and the messages are
// those of core/model/condition_parse.c; which facts there are, and what they may be compared with, the recording's head says.

import { nearest } from "./nearest.js";

const BYTES = ["size", "requested"];
const NUMBERS = [...BYTES, "step", "stream", "address"];
const COMPARISONS = ["==", "=", "!=", "<=", "<", ">=", ">", "~"];
const LENGTH_MOST = 4096;
const DEPTH_MOST = 64;
const SIZES_MOST = 32;

export class ConditionError extends Error {
  // column: from 1
  constructor(column, why) {
    super(why);
    this.column = column;
  }
}

// "64MiB", "1.5 GiB", "4096": bytes; null: it is no size
export function parseBytes(text) {
  const found = /^(\d+\.?\d*(?:[eE][+-]?\d+)?) *(?:([KMGT])(?:iB|B|ib)?|B)?$/i.exec(text);
  if (!found) return null;
  const value = Number(found[1]) * (found[2] ? 1024 ** ("KMGT".indexOf(found[2].toUpperCase()) + 1) : 1);
  return value < 2 ** 50 ? Math.floor(value) : null;
}

function parseNumber(text) {
  const number = /^(?:0[xX][0-9a-fA-F]+|\d+)$/.test(text) ? BigInt(text) : null;
  return number !== null && number < 2n ** 64n ? number : null;
}

class Parser {
  constructor(text, facts) {
    Object.assign(this, { text, facts, at: 0, depth: 0 });
  }

  refuse(at, why) {
    return new ConditionError(at + 1, why);
  }

  // The word of `known` that was meant, or all of them.
  refuseWord(at, word, why, known) {
    const meant = nearest(word, known);
    return this.refuse(at, word + why + (meant ? `did you mean ${meant}?` : `expected one of ${known.join(", ")}`));
  }

  skipSpace() {
    while (/[ \t\n\v\f\r]/.test(this.text[this.at] ?? "")) this.at++;
  }

  next() {
    this.skipSpace();
    return this.text[this.at] ?? "";
  }

  takeWord(word) {
    this.skipSpace();
    if (!this.text.startsWith(word, this.at) || /\w/.test(this.text[this.at + word.length] ?? "")) return false;
    this.at += word.length;
    return true;
  }

  takeFact() {
    this.skipSpace();
    const word = /^\w*/.exec(this.text.slice(this.at))[0];
    const fact = this.facts.find((one) => one.name === word);
    if (!fact) {
      const all = this.facts.map((one) => one.name);
      throw this.refuseWord(this.at, word, word ? " is not known: " : "", all);
    }
    this.at += word.length;
    return fact;
  }

  takeComparison() {
    this.skipSpace();
    const found = COMPARISONS.find((one) => this.text.startsWith(one, this.at));
    if (!found) throw this.refuse(this.at, "expected one of = != < <= > >= ~");
    this.at += found.length;
    return found === "==" ? "=" : found;
  }

  takeValue() {
    const start = this.at;
    const quote = this.text[start];
    if (quote === "'" || quote === '"') {
      const end = this.text.indexOf(quote, start + 1);
      if (end < 0) throw this.refuse(start, "the quote is not closed");
      if (end === start + 1) throw this.refuse(end, "expected a value");
      this.at = end + 1;
      return this.text.slice(start + 1, end);
    }
    const value = /^[^ \t\n\v\f\r()]*/.exec(this.text.slice(start))[0];
    if (!value) throw this.refuse(start, "expected a value");
    this.at += value.length;
    return value;
  }

  // Numbers, "*" and "..."
  takeShape() {
    const open = this.next();
    if (open !== "[" && open !== "(") throw this.refuse(this.at, "expected a shape, like [8, *, 50257] or [..., 64]");
    const close = open === "[" ? "]" : ")";
    const sizes = [];
    this.at++;
    while (this.next() !== close) {
      const size = /^(?:\.\.\.|\*|\d+)/.exec(this.text.slice(this.at))?.[0];
      if (!size) throw this.refuse(this.at, "expected a size, * or ...");
      if (/^\d/.test(size) && BigInt(size) >= 2n ** 63n) throw this.refuse(this.at, "no tensor has such a size");
      if (sizes.length === SIZES_MOST) throw this.refuse(this.at, `a shape may have ${SIZES_MOST} sizes`);
      sizes.push(/^\d/.test(size) ? Number(size) : size);
      this.at += size.length;
      if (this.next() === ",") this.at++;
      else if (this.text[this.at] !== close) throw this.refuse(this.at, `expected , or ${close}`);
    }
    this.at++;
    return sizes;
  }

  takeClause() {
    const { name: fact, words, others } = this.takeFact();
    const clause = { kind: "clause", fact, compare: this.takeComparison() };
    this.skipSpace();
    const at = this.at;
    const isNumber = NUMBERS.includes(fact);
    if (isNumber ? clause.compare === "~" : /[<>]/.test(clause.compare))
      throw this.refuse(at, `${fact} cannot be compared like this: use ${isNumber ? "= != < <= > >=" : "= != ~"}`);
    if (fact === "shape") {
      if (clause.compare === "~") throw this.refuse(at, "shape cannot be compared like this: use = or !=");
      return { ...clause, sizes: this.takeShape() };
    }
    const text = this.takeValue();
    if (BYTES.includes(fact)) {
      const bytes = parseBytes(text);
      if (bytes === null) throw this.refuse(at, `'${text}' is not a size: write it like 64MiB or 4096`);
      return { ...clause, number: BigInt(bytes) };
    }
    if (isNumber) {
      const number = parseNumber(text);
      if (number === null) throw this.refuse(at, `'${text}' is not a number`);
      return { ...clause, number };
    }
    if (fact === "line" && text.includes(":")) {
      const colon = text.lastIndexOf(":");
      const line = text.slice(colon + 1);
      if (!/^\d+$/.test(line) || !Number(line)) throw this.refuse(at, "expected FILE or FILE:LINE");
      return { ...clause, text: text.slice(0, colon), line: Number(line) };
    }
    if (!words.length || clause.compare === "~") return { ...clause, text, line: 0 };
    const name = fact === "dtype" ? text.replace(/^torch\./, "") : text;
    const word = Object.hasOwn(others, name) ? others[name] : name;
    if (!words.includes(word)) throw this.refuseWord(at, word, ` is not a ${fact}: `, words);
    return { ...clause, text: word, line: 0 };
  }

  takeOne() {
    if (++this.depth > DEPTH_MOST) throw this.refuse(this.at, "nested too deeply");
    let node;
    if (this.takeWord("not")) {
      node = { kind: "not", left: this.takeOne() };
    } else if (this.next() === "(") {
      this.at++;
      node = this.takeJoined("or");
      if (this.next() !== ")") throw this.refuse(this.at, "expected and, or or )");
      this.at++;
    } else {
      node = this.takeClause();
    }
    this.depth--;
    return node;
  }

  // `and` binds more tightly than `or`.
  takeJoined(word) {
    const one = () => (word === "or" ? this.takeJoined("and") : this.takeOne());
    let node = one();
    while (this.takeWord(word)) node = { kind: word, left: node, right: one() };
    return node;
  }
}

// facts: [{ name, words, others }]; others: further names of words. Throws a ConditionError.
export function parseCondition(text, facts) {
  if (text.length >= LENGTH_MOST) throw new ConditionError(LENGTH_MOST, `a condition may have ${LENGTH_MOST - 1} characters`);
  const parser = new Parser(text, facts);
  const tree = parser.takeJoined("or");
  if (parser.next()) throw parser.refuse(parser.at, "expected and, or or the end");
  return tree;
}
