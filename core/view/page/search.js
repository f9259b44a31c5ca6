// How many of the first `count` items of an ascending list are at most `value`.
export function countUpTo(list, value, count = list.length) {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}
