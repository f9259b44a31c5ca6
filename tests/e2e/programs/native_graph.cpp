// Objects of C++ that hold tensors, in a tree that its caller makes: native_graph.py. An at::Tensor is one pointer to a
// c10::TensorImpl, whose reference count is its second word (torch/c10/util/intrusive_ptr.h); PyTorch's headers take a
// minute to read.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace graph {

struct Reference {
	uint64_t *tensor = nullptr;
	Reference() = default;
	explicit Reference(uint64_t *object) : tensor(object) { __atomic_add_fetch(&tensor[1], 1, __ATOMIC_SEQ_CST); }
	Reference(Reference &&from) noexcept : tensor(from.tensor) { from.tensor = nullptr; }
	Reference &operator=(Reference &&from) noexcept { std::swap(tensor, from.tensor); return *this; }
	~Reference() { if (tensor) __atomic_sub_fetch(&tensor[1], 1, __ATOMIC_SEQ_CST); }
};

struct Node {
	virtual ~Node() = default;
	virtual void add(Node *) {}
	virtual void hold(uint64_t *) {}
};

struct Holder : Node {
	Reference kept;
	void hold(uint64_t *tensor) override { kept = Reference(tensor); }
};

struct Bag : Node {
	uint64_t other = 3;
	std::vector<Reference> kept;
	void hold(uint64_t *tensor) override { kept.emplace_back(tensor); }
};

struct Table : Node {
	std::unordered_map<uint64_t, Reference> kept;
	void hold(uint64_t *tensor) override { kept.emplace(kept.size(), tensor); }
};

struct Link : Node {
	uint64_t other = 1;
	Node *next = nullptr;
	void add(Node *node) override { next = node; }
};

struct List : Node {
	std::vector<Node *> next;
	void add(Node *node) override { next.push_back(node); }
};

struct Shared : Node {
	std::shared_ptr<Node> next;
	void add(Node *node) override { next.reset(node); }
};

struct Index : Node {
	std::map<int, Node *> next;
	void add(Node *node) override { next.emplace(static_cast<int>(next.size()), node); }
};

Node *pointer_0, *pointer_1, *pointer_2, *pointer_3;
std::unique_ptr<Node> unique_0, unique_1, unique_2, unique_3;
std::shared_ptr<Node> shared_0, shared_1, shared_2, shared_3;
std::vector<Node *> vector_0, vector_1, vector_2, vector_3;
std::unordered_map<int, Node *> map_0, map_1, map_2, map_3;

}  // namespace graph

using namespace graph;

extern "C" {

Node *make(int kind)
{
	switch (kind) {
	case 0: return new Holder;
	case 1: return new Bag;
	case 2: return new Table;
	case 3: return new Link;
	case 4: return new List;
	case 5: return new Shared;
	default: return new Index;
	}
}

void add(Node *parent, Node *child) { parent->add(child); }
void hold(Node *node, uint64_t *tensor) { node->hold(tensor); }

void root(int kind, int number, Node *node)
{
	Node **pointers[] = {&pointer_0, &pointer_1, &pointer_2, &pointer_3};
	std::unique_ptr<Node> *uniques[] = {&unique_0, &unique_1, &unique_2, &unique_3};
	std::shared_ptr<Node> *shareds[] = {&shared_0, &shared_1, &shared_2, &shared_3};
	std::vector<Node *> *vectors[] = {&vector_0, &vector_1, &vector_2, &vector_3};
	std::unordered_map<int, Node *> *maps[] = {&map_0, &map_1, &map_2, &map_3};
	switch (kind) {
	case 0: *pointers[number] = node; break;
	case 1: uniques[number]->reset(node); break;
	case 2: shareds[number]->reset(node); break;
	case 3: vectors[number]->push_back(node); break;
	default: maps[number]->emplace(static_cast<int>(maps[number]->size()), node);
	}
}

// Memory that was used and given back, with words that lead to what is in use.
void forget(uint64_t word, unsigned bytes)
{
	volatile uint64_t *words = static_cast<uint64_t *>(malloc(bytes));
	for (unsigned i = 0; i < bytes / 8; i++)
		words[i] = word;
	free(const_cast<uint64_t *>(words));
}
}
