"""Whether NVTabular 23.08 wrote a workflow: told by what it holds, and not by its label.

NVIDIA's images install NVTabular from clones without tags, where versioneer labels it `0+unknown`
or `0+untagged.1.g0123abc`. So a workflow is 23.08's if the classes that its pickle names have the
attributes that those of 23.08 have, and no others. From 23.08 to NVTabular's newest commit
(08e0633) operators have the same ones, and compute the same. A label can only refuse: the releases
that are earlier may compute otherwise, and those that are later are not known.

What tells earlier releases from it, whatever their labels are: nodes were NVTabular's own up to
23.05, and merlin-core's executor has a format since 23.08. With it came that of two columns with
one name the last is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ensemble_tools.archive.inert_pickle import Inert, class_name
from ensemble_tools.errors import quoted

#: The release whose operators are known, by its name and by its numbers.
RELEASE = "23.08"
_NUMBERS = (23, 8, 0)
#: The numbers of a version, and what comes after: `.dev0` and the like, or `+4.g0b58cc4`.
_LABEL = re.compile(r"v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?(.*)", re.DOTALL)

_WORKFLOW = "nvtabular.workflow.workflow.Workflow"
_NODE = "merlin.dag.node.Node"
_OLD_NODE = "nvtabular.workflow.node.WorkflowNode"
_FORMATS = "merlin.dag.operator.DataFormats"
#: Operators that change a column's schema alone.
TAGGING = (
    *("AddMetadata", "AddTags", "AddProperties", "TagAsUserID", "TagAsItemID"),
    *("TagAsUserFeatures", "TagAsItemFeatures"),
)

#: merlin-core's and NVTabular's classes in a workflow -> their attributes. `:` and a type: of these
#: the class itself makes values of no other. `?`: it may lack the attribute.
_CLASSES: dict[str, str] = (
    {
        _WORKFLOW: (
            "graph:merlin.dag.graph.Graph executor:merlin.dag.executors.DaskExecutor client?"
        ),
        "merlin.dag.executors.DaskExecutor": "_executor:merlin.dag.executors.LocalExecutor",
        "merlin.dag.executors.LocalExecutor": "device _target_format",
        "merlin.dag.graph.Graph": f"output_node:{_NODE} subgraphs:dict",
        _NODE: (
            "_selector op parents:list dependencies:list children:list input_schema output_schema"
        ),
        "merlin.dag.selector.ColumnSelector": "_names _tags subgroups _all",
        "merlin.schema.schema.Schema": "column_schemas:dict",
        "merlin.schema.schema.ColumnSchema": "name tags properties dtype is_list is_ragged",
        "merlin.schema.tags.TagSet": "_tags",
        "merlin.dtypes.base.DType": "name element_type element_size element_unit signed shape",
        "merlin.dtypes.shape.Shape": "dims",
        "merlin.dtypes.shape.Dimension": "min max",
    }
    | {
        f"{package}.ops.{name}": attributes
        for package, operators in {
            "merlin.dag": {
                "selection.SelectionOp": "selector",
                "concat_columns.ConcatColumns": "_label",
                "subset_columns.SubsetColumns": "_label",
                "subtraction.SubtractionOp": "selector",
                "subgraph.Subgraph": "name graph:merlin.dag.graph.Graph loop_until fitted?:bool",
                "udf.UDF": "f _param_count:int dependency _label _dtype _tags _properties",
                "rename.Rename": "f postfix name",
            },
            "nvtabular": {
                "bucketize.Bucketize": "boundaries use_digitize:bool _original_boundaries?",
                "categorify.Categorify": (
                    "workflow_nodes:NoneType name_sep storage_name:dict single_table dtype "
                    "freq_threshold out_path on_host cat_cache encode_type search_sorted max_size "
                    "num_buckets cardinality_memory_limit split_every split_out vocabs:dict "
                    "categories:dict fitted?:bool"
                ),
                "clip.Clip": "min_value max_value",
                "column_similarity.ColumnSimilarity": (
                    "metric left_features right_features on_device _initialized:bool"
                ),
                "difference_lag.DifferenceLag": "partition_cols shifts",
                "drop_low_cardinality.DropLowCardinality": "min_cardinality",
                "dropna.Dropna": "",
                "fill.FillMedian": "add_binary_cols medians:dict fitted?:bool",
                "fill.FillMissing": "fill_val add_binary_cols _inference_transform:NoneType",
                "filter.Filter": "f",
                "groupby.Groupby": (
                    "groupby_cols sort_cols ascending list_aggs:dict conv_aggs:dict name_sep"
                ),
                "hash_bucket.HashBucket": "num_buckets",
                "hashed_cross.HashedCross": "num_buckets",
                "join_external.JoinExternal": (
                    "on df_ext on_ext how kind_ext columns_ext drop_duplicates_ext cache cpu "
                    "kwargs:dict _ext_cache"
                ),
                "join_groupby.JoinGroupby": (
                    "storage_name:dict name_sep stats split_out split_every out_path on_host "
                    "cat_cache categories:dict _cont_names cont_cols fitted?:bool"
                ),
                "list_slice.ListSlice": "start end pad pad_value max_elements",
                "logop.LogOp": "",
                "normalize.Normalize": "means:dict stds:dict out_dtype fitted?:bool",
                "normalize.NormalizeMinMax": "mins:dict maxs:dict out_dtype fitted?:bool",
                "reduce_dtype_size.ReduceDtypeSize": (
                    "float_dtype ranges:dict dtypes:dict fitted?:bool"
                ),
                "rename.Rename": "f postfix name",
                "target_encoding.TargetEncoding": (
                    "dependency target target_mean kfold fold_seed p_smooth out_col out_dtype "
                    "split_out split_every out_path on_host cat_cache name_sep drop_folds "
                    "fold_name stats:dict means:dict fitted?:bool"
                ),
                "value_counts.ValueCount": "stats fitted?:bool",
            },
        }.items()
        for name, attributes in operators.items()
    }
    | {
        f"{package}.ops.add_metadata.{name}": "tags properties"
        for package in ("merlin.dag", "nvtabular")
        for name in TAGGING
    }
)


@dataclass(frozen=True)
class _Attribute:
    """The values of an operator's attribute in all pickles of a release."""

    #: The type of all values, empty where they may be of any.
    type_name: str
    #: Whether the attribute may be absent.
    may_lack: bool


def _parse_attributes(text: str) -> dict[str, _Attribute]:
    parsed = {}
    for entry in text.split():
        name, _, type_name = entry.partition(":")
        parsed[name.removesuffix("?")] = _Attribute(type_name, name.endswith("?"))
    return parsed


_ATTRIBUTES = {name: _parse_attributes(text) for name, text in _CLASSES.items()}


@dataclass(frozen=True)
class Content:
    """What a pickle tells of the release that wrote it."""

    #: How it differs from a pickle of 23.08, empty for one of 23.08.
    unlike: str = ""
    #: Whether it is from before 23.06.
    is_old: bool = False


def list_known_classes() -> frozenset[str]:
    """The classes whose attributes are known."""
    return frozenset(_CLASSES)


def judge_content(workflow: Any, objects: Iterable[Inert]) -> Content:
    """Hold what a pickle holds against the classes of 23.08. objects: all that are in the workflow.

    Of a class that is not known nothing is said.
    """
    if not isinstance(workflow, Inert) or "graph" not in workflow.state:
        return Content()  # no workflow at all, as who reads its graph will find
    unlike = ""
    if class_name(workflow) != _WORKFLOW:
        unlike = f"it is {quoted(class_name(workflow))}, expected {_WORKFLOW}"
    has_formats = False
    for inert in objects:
        name = class_name(inert)
        if name == _OLD_NODE:
            return Content("its nodes are NVTabular's own, as they were before 23.06", is_old=True)
        has_formats = has_formats or _holds_formats(inert.state.get("_target_format"))
        unlike = unlike or _compare(name, inert.state)
    if not unlike and not has_formats:
        unlike = f"its LocalExecutor has no {_FORMATS}, as that of {RELEASE} has"
    return Content(unlike)


def judge_saved(objects: Iterable[Inert]) -> Content:
    """The content of a workflow that was saved as graph.json, which leaves attributes out.

    Each NVTabular that writes it computes as 23.08 does, unless it has parameters of another one.
    """
    for inert in objects:
        name = class_name(inert)
        for attribute in inert.state:
            if attribute not in _ATTRIBUTES.get(name, {attribute: None}):
                label = name.rpartition(".")[2]
                return Content(
                    f"its {label} has {_shown(attribute)}, which that of {RELEASE} has not"
                )
    return Content()


def list_attributes(name: str) -> frozenset[str] | None:
    """The attributes of an instance of that class in 23.08; None for a class that is not known."""
    return frozenset(_ATTRIBUTES[name]) if name in _ATTRIBUTES else None


def refuse_label(label: str) -> str:
    """Why a workflow with that label is not taken for 23.08's; empty where it may be.

    A label that names no release, such as `0+unknown`, says nothing of it.
    """
    if label.endswith(".dirty"):
        return f"NVTabular {label} has changes that are not known"
    release, rest = _parse_label(label)
    if not any(release):
        return ""
    if release > _NUMBERS:
        return f"NVTabular {label} is later than the releases that are known"
    if release < _NUMBERS or not (not rest or rest.startswith(("+", ".post"))):
        return f"NVTabular {label} is earlier than {RELEASE}"
    return ""


def names_release(label: str) -> bool:
    """Whether a label says which release it is."""
    return any(_parse_label(label)[0])


def describe_recognition(label: str, *, pickled: bool = True) -> str:
    """How a workflow of 23.08's was recognised, for people.

    pickled: whether it is a pickle. 23.08 writes no graph.json: its operators are what it shares.
    """
    whose = f"NVTabular {RELEASE}" if pickled else f"the operators of NVTabular {RELEASE}"
    if names_release(label):
        return f"{whose} by its label ({label}) and by what it holds"
    why = f"its label {label} names no release" if label else "it has no label"
    return f"{whose} by what it holds; {why}"


def _parse_label(label: str) -> tuple[tuple[int, ...], str]:
    match = _LABEL.fullmatch(label)
    if match is None:
        return (), ""
    *numbers, rest = match.groups()
    return tuple(int(number or 0) for number in numbers), rest


def _compare(name: str, state: Mapping[str, Any]) -> str:
    """How an object differs from those of its class."""
    expected = _ATTRIBUTES.get(name)
    if expected is None:
        return ""
    label = name.rpartition(".")[2]
    for attribute, value in state.items():
        if attribute not in expected:
            return f"its {label} has {_shown(attribute)}, which that of {RELEASE} has not"
        type_name = expected[attribute].type_name
        if type_name and _type_of(value) != type_name:
            return (
                f"{attribute} of its {label} is of the type {quoted(_type_of(value))}, and in "
                f"{RELEASE} it is {type_name}"
            )
    for attribute, kind in expected.items():
        if attribute not in state and not kind.may_lack:
            return f"its {label} has no {attribute}, as that of {RELEASE} has"
    return ""


def _holds_formats(value: Any) -> bool:
    """Flags may be pickled one by one, as what `or` makes of them."""
    return isinstance(value, Inert) and (
        class_name(value) == _FORMATS or any(class_name(part) == _FORMATS for part in value.args)
    )


def _type_of(value: Any) -> str:
    return class_name(value) or type(value).__name__


def _shown(attribute: Any) -> str:
    return quoted(attribute) if isinstance(attribute, str) else "an attribute without a name"
