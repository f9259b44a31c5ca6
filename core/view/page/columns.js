// The columns of the page: elements with base64 of deflated numbers, bytes or JSON. docs/view-format.md has the format.

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Numbers of up to 64 bits; those beyond 2^53 lose their last digits.
function decodeNumbers(bytes, differences, Type) {
  let count = 0;
  for (let i = 0; i < bytes.length; i++) count += bytes[i] < 128 ? 1 : 0;
  const numbers = new Type(count);
  let at = 0;
  let before = 0;
  for (let i = 0; i < count; i++) {
    let byte = bytes[at++];
    let number = byte & 127;
    for (let factor = 128; byte >= 128; factor *= 128) {
      byte = bytes[at++];
      number += (byte & 127) * factor;
    }
    if (differences) {
      const half = Math.floor(number / 2);
      before += number % 2 ? -half - 1 : half;
      number = before;
    }
    numbers[i] = number;
  }
  return numbers;
}

export class Columns {
  constructor(root) {
    this.elements = new Map();
    for (const element of root.querySelectorAll('script[type="application/x-gpumem-column"]')) this.elements.set(element.dataset.name, element);
  }

  has(name) {
    return this.elements.has(name);
  }

  async bytes(name) {
    const element = this.elements.get(name);
    if (!element) throw new Error(`the page has no column ${name}: it is truncated`);
    const bytes = await inflate(fromBase64(element.textContent));
    element.textContent = ""; // it is read once, and its text takes memory
    return bytes;
  }

  async json(name) {
    return JSON.parse(new TextDecoder().decode(await this.bytes(name)));
  }

  async numbers(name, Type = Float64Array) {
    const differences = this.elements.get(name)?.dataset.form === "differences";
    return decodeNumbers(await this.bytes(name), differences, Type);
  }
}
