#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cpython/versions/learned.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gm_python_learned *first;

static struct gm_python_learned *search(const uint8_t *id, size_t id_size)
{
	struct gm_python_learned *one = first;

	while (one && (one->id_size != id_size || memcmp(one->id, id, id_size) != 0))
		one = one->next;
	return one;
}

void gm_python_learned_keep(struct gm_python_learned *learned)
{
	pthread_mutex_lock(&lock);
	if (search(learned->id, learned->id_size)) {
		free(learned);
	} else {
		learned->next = first;
		first = learned;
	}
	pthread_mutex_unlock(&lock);
}

const struct gm_python_tables *gm_python_learned_of_build(const uint8_t *id, size_t id_size)
{
	const struct gm_python_learned *found;

	if (!id_size)
		return NULL;
	pthread_mutex_lock(&lock);
	found = search(id, id_size);
	pthread_mutex_unlock(&lock);
	return found ? &found->tables : NULL;
}

const struct gm_python_tables *gm_python_learned_of_version(int version)
{
	const struct gm_python_learned *found;

	pthread_mutex_lock(&lock);
	found = first;
	while (found && found->tables.version != version)
		found = found->next;
	pthread_mutex_unlock(&lock);
	return found ? &found->tables : NULL;
}
