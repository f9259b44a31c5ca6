"""A tensor that one C++ object holds, among words that say the same and hold nothing. By itself: where much memory was used
before, such an object has other old words, of which nothing can be told."""

from hold import big, way
from native import implementation, library


@way("a holder::Box, held by static 'holder::box' of libholder.so")
def cpp_among_old_words():
    tensor = big()
    library().keep_among_old_words(implementation(tensor))
