"""In the place of CuPy's generators of random numbers, which are code for a real device."""


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def refuse(*arguments, **settings):
        raise RuntimeError(f"cupy.random: {name} is not emulated")

    return type(name, (), {"__new__": refuse})
