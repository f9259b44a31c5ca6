"""Objects, classes and functions."""

import atexit
import functools
import operator
import types
import weakref

from hold import big, other, way


class Plain:
    pass


@way("attribute 'kept' of Plain: {g}")
def attribute():
    held = Plain()
    held.kept = big()
    return held


@way("attribute 'kept' of Plain: attribute 'inner' of Plain: {g}")
def attribute_of_an_attribute():
    held = Plain()
    held.inner = Plain()
    held.inner.kept = big()
    return held


@way("item 0 of list: key 'acts' of dict: attribute 'cache' of Plain: {g}")
def containers_in_an_attribute():
    held = Plain()
    held.cache = {"acts": [big()]}
    return held


@way("attribute 'attribute_40' of Plain: {g}")
def attribute_of_many():
    held = Plain()
    for number in range(60):
        setattr(held, f"attribute_{number}", number)
    held.attribute_40 = big()
    return held


@way("attribute 'kept' of Plain: {g}")
def attribute_by_its_dict():
    held = Plain()
    held.__dict__["kept"] = big()
    return held


@way("key 'kept' of dict: {g}")
def an_instances_dict_alone():
    held = Plain()
    held.kept = big()
    return held.__dict__


@way("attribute 'kept' of Slots: {g}")
def slot():
    class Slots:
        __slots__ = ("first", "kept")

    held = Slots()
    held.kept = big()
    return held


@way("attribute 'kept' of Derived: {g}")
def inherited_slot():
    class Slots:
        __slots__ = ("kept",)

    class Derived(Slots):
        pass

    held = Derived()
    held.kept = big()
    held.extra = 1
    return held


@way("attribute 'kept' of class Holder: {g}")
def class_attribute():
    class Holder:
        kept = big()

    return Holder


@way("attribute 'kept' of class Meta: class of class Holder: {g}")
def metaclass_attribute():
    class Meta(type):
        kept = big()

    class Holder(metaclass=Meta):
        pass

    return Holder


@way("attribute 'kept' of class Holder: class of a Holder: item 0 of list: {g}")
def class_without_a_name():
    class Holder:
        kept = big()

    return [Holder()]


@way("attribute 'kept' of class Base: __base__ of class Derived: {g}")
def attribute_of_a_base_class():
    class Base:
        kept = big()

    class Derived(Base):
        pass

    return Derived


@way("attribute 'kept' of Holder: {g}")
def cached_property():
    class Holder:
        @functools.cached_property
        def kept(self):
            return big()

    held = Holder()
    assert held.kept is not None
    return held


@way("closure variable 'tensor' of property_closure.<locals>.Holder.value(): fget of property: attribute 'value' of class Holder: {g}")  # fmt: skip
def property_closure():
    tensor = big()

    class Holder:
        @property
        def value(self):
            return tensor

    return Holder


@way("attribute 'kept' of Holder: self of bound method bound_method.<locals>.Holder.call: {g}")
def bound_method():
    class Holder:
        def call(self):
            pass

    held = Holder()
    held.kept = big()
    return held.call


@way("item 0 of list: self of bound method append: {g}")
def bound_builtin_method():
    return [big()].append


@way("item 0 of tuple: args of partial: {g}")
def partial():
    return functools.partial(print, big())


@way("key 'end' of dict: keywords of partial: {g}")
def partial_keyword():
    return functools.partial(print, end=big())


@way("default argument of default_argument.<locals>.function(): {g}")
def default_argument():
    def function(value=big()):
        pass

    return function


@way("default of argument 'named' of keyword_default.<locals>.function(): {g}")
def keyword_default():
    def function(*, named=big()):
        pass

    return function


@way("closure variable 'captured' of closure.<locals>.<lambda>(): {g}")
def closure():
    captured = big()
    return lambda: captured


@way("item 0 of list: closure variable 'captured' of closure_of_two.<locals>.<lambda>(): {g}")
def closure_of_two():
    first, captured = 1, [big()]
    return lambda: (first, captured)


@way("attribute 'note' of function: {g}")
def function_attribute():
    def function():
        pass

    function.note = big()
    return function


@way("closure variable 'tensor' of decorated.<locals>.wrapper(): {g}")
def decorated():
    tensor = big()

    @functools.wraps(print)
    def wrapper(*arguments):
        return tensor

    del wrapper.__wrapped__
    return wrapper


@way("result of _lru_list_elem: link of _lru_cache_wrapper: {g}")
def lru_cache():
    @functools.lru_cache
    def make(number):
        return big()

    make(3)
    return make


@way("item 0 of tuple: key of _lru_list_elem: link of _lru_cache_wrapper: {g}")
def lru_cache_argument():
    @functools.lru_cache
    def use(tensor):
        return 1

    use(big())
    return use


@way("key '3' of dict: cache of _lru_cache_wrapper: {g}")
def unbounded_cache():
    @functools.lru_cache(None)
    def make(number):
        return big()

    make(3)
    return make


@way("attribute 'note' of Tensor: {g}")
def attribute_of_a_tensor():
    held = other(3)
    held.note = big()
    return held


@way("attribute 'kept' of module: {g}")
def module_by_hand():
    held = types.ModuleType("made_by_hand")
    held.kept = big()
    return held


@way("attribute 'kept' of Descriptor: attribute 'managed' of class Holder: {g}")
def descriptor():
    class Descriptor:
        def __get__(self, instance, owner):
            return self.kept

    class Holder:
        managed = Descriptor()

    Holder.__dict__["managed"].kept = big()
    return Holder


@way(
    "item 0 of tuple: attribute 'args' of _Info: value of dict: attribute '_registry' of class finalize: global 'finalize' of module weakref",
    "item 0 of tuple: attribute 'args' of _Info: value of dict: attribute '_registry' of class finalize: self of bound method finalize._exitfunc: native memory of N bytes, held by the Python interpreter's own data",
    since_314=[
        "item 0 of tuple: attribute 'args' of _Info: value of dict: attribute '_registry' of class finalize: global 'finalize' of module weakref",
        "item 0 of tuple: attribute 'args' of _Info: value of dict: attribute '_registry' of class finalize: self of bound method finalize._exitfunc: item 0 of tuple: item 4 of list: the Python interpreter's own data",
    ],
)
def finalizer():
    held = Plain()
    weakref.finalize(held, print, big())
    return held


# the interpreter's list of what atexit calls is no Python object until 3.13
@way(
    "item 0 of tuple: native memory of N bytes, held by the Python interpreter's own data",
    since_314=["item 0 of tuple: item 1 of tuple: item 0 of list: the Python interpreter's own data"],
)
def registered_with_atexit():
    atexit.register(print, big())


@way("attribute 'kept' of Holder: item 0 of list: {g}")
def object_in_a_list():
    class Holder(Plain):
        pass

    held = [Holder()]
    held[0].kept = big()
    return held


@way("item 0 of list: global 'garbage_cycle' of module objects")
def saved_from_a_cycle():
    held = [big()]
    held.append(held)
    globals()["garbage_cycle"] = held


@way("item 0 of list: a garbage cycle: nothing else holds it, gc.collect() would free it")
def garbage():
    held = [big()]
    held.append(held)


@way("attribute 'kept' of Plain: a garbage cycle: nothing else holds it, gc.collect() would free it")
def garbage_object():
    held = Plain()
    held.kept = big()
    held.myself = held


@way("{g}")
def a_call_that_ended_is_no_holder():
    tensor = big()

    def call(depth, tensor):
        return call(depth - 1, tensor) if depth else tensor

    return call(50, tensor)


@way("{g}")
def a_rebound_name_is_no_holder():
    name = mark_nothing = other()
    name = big()
    del mark_nothing
    return name


@way("item 1 of tuple: item of itemgetter: {g}")
def item_getter():
    return operator.itemgetter(0, big())


@way("item 0 of tuple: attribute 'args' of partialmethod: attribute 'call' of class Holder: {g}")
def partial_method():
    class Holder:
        call = functools.partialmethod(print, big())

    return Holder

