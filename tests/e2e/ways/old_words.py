"""A tensor that one C++ object holds, among words that say the same and hold nothing. By itself: where much memory was used
before, such an object has other old words, of which nothing can be told."""

import torch
from hold import big, way
from native import implementation, library


@way("a holder::Box, held by static 'holder::box' of libholder.so")
def cpp_among_old_words():
    # what was free is taken: a library may still have a word that leads there
    taken = [torch.empty(1) for _ in range(3000)]
    tensor = big()
    library().keep_among_old_words(implementation(tensor))
    del taken
