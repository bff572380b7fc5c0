import ast
from pathlib import Path

import pytest

from sandbox.errors import TaskError
from sandbox.rename import rename_class

HERE = Path("task.py")


def renamed(source: str) -> str:
    return rename_class(source.encode(), "Model", "ModelNew", where=HERE).decode()


def test_every_use_of_the_name_follows() -> None:
    source = (
        "import torch\n\n\nclass  Model (torch.nn.Module):\n    def __init__(self):\n        super(Model, self).__init__()\n"
        "        Model.count = 1\n\n    def copy(self) -> Model: return Model()\n"
    )
    new = renamed(source)
    assert new == source.replace("Model (", "ModelNew (").replace("(Model,", "(ModelNew,").replace(
        "Model.count", "ModelNew.count"
    ).replace("-> Model: return Model()", "-> ModelNew: return ModelNew()")
    ast.parse(new)


def test_other_words_that_contain_or_equal_the_name_stay() -> None:
    source = (
        "import zoo\n\n\nclass ModelBase: pass\n\n\nclass Model(ModelBase):\n    '''Model of a Model.'''\n"
        "    key = 'Model'  # Model\n    made = zoo.Model\n"
    )
    assert renamed(source) == source.replace("class Model(", "class ModelNew(")


def test_nothing_else_changes_with_accents_decorators_and_dos_line_ends() -> None:
    source = "é = 'ü'; kind = lambda: Model\r\n@print\r\nclass Model:\r\n    naïve = 'é'; me = lambda: Model\r\n"
    assert renamed(source) == source.replace("lambda: Model", "lambda: ModelNew").replace(
        "class Model:", "class ModelNew:"
    )


def test_encoding_and_byte_order_mark_stay() -> None:
    latin = "# -*- coding: latin-1 -*-\nx = 'é'\nclass Model: pass\n".encode("latin-1")
    assert rename_class(latin, "Model", "ModelNew", where=HERE) == latin.replace(b"Model:", b"ModelNew:")
    marked = b"\xef\xbb\xbfclass Model: pass\n"
    assert rename_class(marked, "Model", "ModelNew", where=HERE) == b"\xef\xbb\xbfclass ModelNew: pass\n"


@pytest.mark.parametrize("source", ["class Other: pass\n", "class Model(:\n", "def f():\n    class Model: pass\n"])
def test_a_source_without_the_class_is_refused_with_its_place(source: str) -> None:
    with pytest.raises(TaskError, match=r"task\.py"):
        renamed(source)
