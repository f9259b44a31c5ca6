// Which word was meant by a mistyped one: the rule of core/base/nearest_word.h.

const LETTERS_MOST = 63;

function letters(word) {
  return word.replace(/[-_]/g, "").toLowerCase();
}

function edits(a, b) {
  const row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    let diagonal = row[0];
    row[0] = i;
    for (let j = 1; j <= b.length; j++) {
      const above = row[j];
      row[j] = Math.min(diagonal + (a[i - 1] === b[j - 1] ? 0 : 1), above + 1, row[j - 1] + 1);
      diagonal = above;
    }
  }
  return row[b.length];
}

function distance(typed, word) {
  const a = letters(typed);
  const b = letters(word);
  if (!a.length || a.length > LETTERS_MOST || b.length > LETTERS_MOST) return Infinity;
  let found = edits(a, b);
  if (found > 1 && a.length < b.length && b.startsWith(a)) found = 1;
  const most = a.length <= 3 ? 1 : a.length <= 5 ? 2 : 3;
  return found <= most ? found : Infinity;
}

// null: none is near
export function nearest(typed, known) {
  let best = null;
  let least = Infinity;
  for (const word of known) {
    const found = distance(typed, word);
    if (found < least) [best, least] = [word, found];
  }
  return best;
}
