// Keeps a tensor as C++ code does: at::Tensor is one pointer to a c10::TensorImpl, whose reference count is its second
// word (torch/c10/util/intrusive_ptr.h). Built without PyTorch's headers, which take a minute to read.
#include <pthread.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace holder {

struct Reference {
	uint64_t *tensor;
	explicit Reference(uint64_t *object) : tensor(object) { __atomic_add_fetch(&tensor[1], 1, __ATOMIC_SEQ_CST); }
	Reference(Reference &&from) noexcept : tensor(from.tensor) { from.tensor = nullptr; }
	~Reference() { if (tensor) __atomic_sub_fetch(&tensor[1], 1, __ATOMIC_SEQ_CST); }
};

struct Cache {
	virtual ~Cache() = default;
	uint64_t other = 1;
	std::vector<Reference> tensors;
};

struct Box {
	virtual ~Box() = default;
	uint64_t other = 1;
	Reference kept;
	explicit Box(uint64_t *tensor) : kept(tensor) {}
};

// Holds nothing, but has words that lay there before.
struct Label {
	virtual ~Label() = default;
	std::string name = "short";
	uint64_t *given_back = nullptr;
};

// Leads to a Cache. As large as a chunk of the heap: what lay there before would be behind a smaller object.
struct Shelf {
	virtual ~Shelf() = default;
	void *kept;
	uint64_t other = 1;
	explicit Shelf(void *object) : kept(object) {}
};

struct Signature {
	uint64_t words[6];
};

Box *box = nullptr;
Shelf *shelf = nullptr;
Label *label = nullptr;
uint64_t *kept_by_static = nullptr;
std::vector<Reference> *vector_of_static = nullptr;
std::vector<Cache *> *caches = nullptr;

}  // namespace holder

struct _object;

namespace holder {

// PyTorch's bindings have a static parser of their arguments, whose memory has words that lay there before.
std::vector<Signature> *bind(_object *, _object *, _object *)
{
	static std::vector<Signature> parser(3);
	return &parser;
}

void *stand(void *tensor)
{
	volatile uint64_t words[4] = {1, 2, reinterpret_cast<uint64_t>(tensor), 4};
	for (;;)
		sleep(words[0] ? 1000 : static_cast<unsigned>(words[2]));
}

}  // namespace holder

using namespace holder;

extern "C" {

void keep_in_static(uint64_t *tensor) { kept_by_static = Reference(tensor).tensor; __atomic_add_fetch(&tensor[1], 1, __ATOMIC_SEQ_CST); }

void keep_in_vector(uint64_t *tensor)
{
	vector_of_static = new std::vector<Reference>;
	vector_of_static->reserve(4);
	vector_of_static->emplace_back(tensor);
}

void keep_in_object(uint64_t *tensor)
{
	static std::vector<Cache *> all;
	Cache *cache = new Cache;
	cache->tensors.emplace_back(tensor);
	all.push_back(cache);
	caches = &all;
}

// In one object; other words that say the same are behind a short text, and in memory that was given back.
void keep_among_old_words(uint64_t *tensor)
{
	box = new Box(tensor);
	label = new Label;
	volatile uint64_t *name = reinterpret_cast<uint64_t *>(&label->name);
	name[3] = reinterpret_cast<uint64_t>(tensor);
	label->given_back = static_cast<uint64_t *>(malloc(200));
	volatile uint64_t *words = label->given_back;
	for (int i = 0; i < 25; i++)
		words[i] = reinterpret_cast<uint64_t>(tensor);
	free(label->given_back);
}

// In an object that is farther from a static variable than the old word in a parser of arguments.
void keep_beside_parser(uint64_t *tensor)
{
	Cache *cache = new Cache;
	cache->tensors.emplace_back(tensor);
	shelf = new Shelf(new Shelf(cache));
	(*bind(nullptr, nullptr, nullptr))[1].words[3] = reinterpret_cast<uint64_t>(cache);
}

void keep_in_thread(uint64_t *tensor)
{
	pthread_t thread;
	__atomic_add_fetch(&tensor[1], 1, __ATOMIC_SEQ_CST);
	pthread_create(&thread, nullptr, stand, tensor);
	usleep(100000);
}

/* Stacks without a guard between them, as all are from glibc 2.42 on: the second of three that lie side by side. */
void keep_in_unguarded_thread(uint64_t *tensor)
{
	pthread_attr_t attributes;
	pthread_t thread;
	pthread_attr_init(&attributes);
	pthread_attr_setguardsize(&attributes, 0);
	__atomic_add_fetch(&tensor[1], 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < 3; i++)
		pthread_create(&thread, &attributes, stand, i == 1 ? tensor : nullptr);
	usleep(100000);
}
}
