"""Scenario files: their schema, their faults and the values that the command line lays over them."""

from scenarios.spec.data import DatasetSpec, PrefixSpec, TraceSpec
from scenarios.spec.lengths import InputSpec, LengthSpec
from scenarios.spec.load import LoadSpec, SearchSpec
from scenarios.spec.loading import ScenarioError, load_scenario, shipped_scenarios
from scenarios.spec.scenario import EngineSpec, ReportSpec, Scenario, SloSpec, TimeoutSpec
from scenarios.spec.workload import CancelSpec, ConversationSpec, WorkloadSpec

__all__ = [
    "CancelSpec",
    "ConversationSpec",
    "DatasetSpec",
    "EngineSpec",
    "InputSpec",
    "LengthSpec",
    "LoadSpec",
    "PrefixSpec",
    "ReportSpec",
    "Scenario",
    "ScenarioError",
    "SearchSpec",
    "SloSpec",
    "TimeoutSpec",
    "TraceSpec",
    "WorkloadSpec",
    "load_scenario",
    "shipped_scenarios",
]
