import doctest
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_examples_of_the_readme_run():
    result = doctest.testfile(str(README), module_relative=False)
    assert result.attempted >= 7
    assert result.failed == 0
