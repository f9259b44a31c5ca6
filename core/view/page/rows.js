// Rows of a table in an order: the first few of many, without sorting all.

// The first `count` of `items` by before(a, b) (less than 0: a comes first).
export function firstRows(items, count, before) {
  if (items.length <= 4 * count) return [...items].sort(before).slice(0, count);
  const heap = []; // of those kept, the last one is at the top
  const sink = (at) => {
    for (;;) {
      let last = at;
      for (const child of [2 * at + 1, 2 * at + 2]) if (child < heap.length && before(heap[child], heap[last]) > 0) last = child;
      if (last === at) return;
      [heap[at], heap[last]] = [heap[last], heap[at]];
      at = last;
    }
  };
  for (const item of items) {
    if (heap.length < count) {
      heap.push(item);
      if (heap.length === count) for (let at = count >> 1; at >= 0; at--) sink(at);
    } else if (before(item, heap[0]) < 0) {
      heap[0] = item;
      sink(0);
    }
  }
  return heap.sort(before);
}

// Compares by a key, numbers or texts; what is equal stands in the order of `id`.
export function ordering(key, descending, id) {
  const sign = descending ? -1 : 1;
  return (a, b) => {
    const [one, other] = [key(a), key(b)];
    return one < other ? -sign : one > other ? sign : id(a) - id(b);
  };
}
