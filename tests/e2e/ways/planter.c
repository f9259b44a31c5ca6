/* Old words: addresses that lie in memory which is in use and refer to nothing, as in members that
 * a constructor does not set (torch's PythonArgParser has some), behind a vector's last item, and
 * in memory that was given back. */
#include <stdint.h>
#include <stdlib.h>

struct parser {
	uint64_t count;
	uint64_t unset[2];
	const char *name;
};

enum { MOST = 4096 };
static struct parser parsers[MOST];
static struct parser *lists[MOST];
static uint64_t *vectors[MOST][3]; /* as std::vector: begin, end, end of the memory */
static unsigned used[3];

void plant_in_static(uint64_t word)
{
	parsers[used[0]++ % MOST] = (struct parser){2, {7, word}, "static"};
}

void plant_in_memory_of_a_static(uint64_t word)
{
	struct parser *list = malloc(3 * sizeof(*list));
	for (int i = 0; i < 3; i++)
		list[i] = (struct parser){1, {word, 3}, "memory"};
	lists[used[1]++ % MOST] = list;
}

void plant_behind_a_vector(uint64_t word)
{
	uint64_t *items = malloc(8 * sizeof(*items));
	for (int i = 0; i < 8; i++)
		items[i] = i < 2 ? (uint64_t)i : word;
	uint64_t **vector = vectors[used[2]++ % MOST];
	vector[0] = items;
	vector[1] = items + 2;
	vector[2] = items + 8;
}

void plant_in_lost_memory(uint64_t word)
{
	volatile uint64_t *words = malloc(96);
	for (int i = 0; i < 12; i++)
		words[i] = word;
}

void plant_in_freed_memory(uint64_t word)
{
	volatile uint64_t *words = malloc(112);
	for (int i = 0; i < 14; i++)
		words[i] = word;
	free((void *)words);
}

void plant_on_a_stack(uint64_t word)
{
	volatile uint64_t words[64];
	for (int i = 0; i < 64; i++)
		words[i] = word;
}
