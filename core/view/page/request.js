// What PyTorch would do with a request, given the memory as it is laid out: as core/ask/target/request.c has it for recordings, in which
// no pool is named and no limit of the allocator is known.

const SMALL_REQUEST = 2 ** 20;
const SMALL_SEGMENT = 2 * 2 ** 20;
const MIDDLE_REQUEST = 10 * 2 ** 20;
const LARGE_SEGMENT = 20 * 2 ** 20;
const SEGMENT_STEP = 2 * 2 ** 20;
const BLOCK_STEP = 512;

const roundUp = (bytes, step) => Math.ceil(bytes / step) * step;

function segmentSize(bytes) {
  if (bytes <= SMALL_REQUEST) return SMALL_SEGMENT;
  return bytes < MIDDLE_REQUEST ? LARGE_SEGMENT : roundUp(bytes, SEGMENT_STEP);
}

// { bytes, rounded, segment, small, stream, fits, at, part, holes: { tooSmall, otherStream, otherPool } }
export function request(layout, bytes, stream) {
  const rounded = Math.max(BLOCK_STEP, roundUp(bytes, BLOCK_STEP));
  const small = rounded <= SMALL_REQUEST;
  const empty = () => ({ count: 0, bytes: 0, largest: 0 });
  const holes = { tooSmall: empty(), otherStream: empty(), otherPool: empty() };
  let best = null;
  for (const segment of layout.segments) {
    for (const part of segment.parts) {
      if (part.state !== "free") continue;
      let kind = null;
      if (segment.size <= SMALL_SEGMENT !== small) kind = "otherPool";
      else if (segment.stream !== stream) kind = "otherStream";
      else if (part.size < rounded) kind = "tooSmall";
      if (kind) {
        holes[kind].count++;
        holes[kind].bytes += part.size;
        holes[kind].largest = Math.max(holes[kind].largest, part.size);
      } else if (!best || part.size < best.size) {
        best = part;
      }
    }
  }
  return { bytes, rounded, segment: segmentSize(rounded), small, stream, fits: best !== null, part: best, holes };
}
