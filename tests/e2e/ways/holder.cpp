// Keeps a tensor as C++ code does: at::Tensor is one pointer to a c10::TensorImpl, whose reference count is its second
// word (torch/c10/util/intrusive_ptr.h). Built without PyTorch's headers, which take a minute to read.
#include <pthread.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
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

uint64_t *kept_by_static = nullptr;
std::vector<Reference> *vector_of_static = nullptr;
std::vector<Cache *> *caches = nullptr;

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

void keep_in_thread(uint64_t *tensor)
{
	pthread_t thread;
	__atomic_add_fetch(&tensor[1], 1, __ATOMIC_SEQ_CST);
	pthread_create(&thread, nullptr, stand, tensor);
	usleep(100000);
}
}
