/*
 * Random numbers of tests: the same ones each time, by a seed that is printed where a check fails.
 * GPUMEM_TEST_ROUNDS=N runs each random test N times as long, GPUMEM_TEST_SEED=N with other
 * numbers.
 */
#ifndef GM_TESTS_RANDOM_H
#define GM_TESTS_RANDOM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct random {
	uint64_t state;
};

static inline uint64_t random_word(struct random *random)
{
	random->state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
	uint64_t mixed = random->state;
	mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
	return mixed ^ mixed >> 31;
}

/* From 0 up to, not including, `bound`, which is not 0. */
static inline uint32_t random_below(struct random *random, uint32_t bound)
{
	if (bound == 0)
		abort();
	return (uint32_t)(random_word(random) >> 32) % bound;
}

/* In one of `times` cases. */
static inline bool random_once_in(struct random *random, uint32_t times)
{
	return random_below(random, times) == 0;
}

static inline uint64_t random_setting(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static inline uint64_t random_rounds(uint64_t rounds)
{
	return rounds * random_setting("GPUMEM_TEST_ROUNDS", 1);
}

/* Each round has numbers of its own, so that one that fails can be run alone. */
static inline struct random random_of_round(uint64_t round)
{
	uint64_t seed = random_setting("GPUMEM_TEST_SEED", 1);
	struct random random = {seed << 32 ^ round};
	return random;
}

/* A check with the round that failed. */
#define check_in_round(round, condition)                                               \
	do {                                                                           \
		if (!(condition)) {                                                    \
			fprintf(stderr, "round %ju of seed %ju\n", (uintmax_t)(round), \
			        (uintmax_t)random_setting("GPUMEM_TEST_SEED", 1));     \
			assert_true(condition);                                        \
		}                                                                      \
	} while (0)

#endif
