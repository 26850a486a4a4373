"""Plans and simulates the training of large models on geo-distributed, heterogeneous, unreliable machines.

The functions take what the programs dtfm-plan, dtfm-sim, dtfm-compare, dtfm-calibrate and dtfm-export take, as keyword arguments
(`--micro-batch 2` is `micro_batch=2`), and give the same numbers, byte for byte:

    import dtfm

    topology = dtfm.Topology("worldwide.yaml")
    plan = dtfm.plan(topology, model="llama-3-8b", batch=512, seed=1)
    plan.iteration_time_s
    dtfm.simulate(topology, plan, scenario="spot.yaml", samples=100)
    dtfm.export(plan, to=["pytorch", "torchrun"], folder="exported")
    dtfm.train(topology, plan, folder="run", steps=1000)
"""

from dtfm._core import __version__
from dtfm.elastic import Training, TrainingError, train
from dtfm.errors import InfeasibleError, InputError
from dtfm.inputs import Job, Scenario, Topology
from dtfm.requests import calibrate, compare, export, plan, replan, score, simulate
from dtfm.results import Calibration, Comparison, Export, Plan, Simulation

__all__ = [
    "Calibration",
    "Comparison",
    "Export",
    "InfeasibleError",
    "InputError",
    "Job",
    "Plan",
    "Scenario",
    "Simulation",
    "Topology",
    "Training",
    "TrainingError",
    "__version__",
    "calibrate",
    "compare",
    "export",
    "plan",
    "replan",
    "score",
    "simulate",
    "train",
]
