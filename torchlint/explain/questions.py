"""The words for every question that a rule may ask: what the answer yes means, and what the answer no.

In a sentence, ``{0}`` is the source of what was asked about, and ``{answer}`` the answer.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """The sentences for an answer: one that holds something to be so (True, a thing), and one that does not."""

    yes: str
    no: str


_PACE = Words("the line runs often", "the line runs seldom")  # `pace` says it in full

FACTS: dict[str, Words] = {
    # -- how often, and in which code ---------------------------------------------------------------------------
    "heat": _PACE,
    "may_be_hot": _PACE,
    "function_heat": _PACE,
    "throttled": Words("a condition makes it run only now and then", "no condition makes it rare"),
    "inner_loop": Words("a loop within the step repeats it", "no loop within the step repeats it"),
    "loop_kind": Words("one iteration of the loop is: {answer}", "one iteration of the loop is: {answer}"),
    "count": Words("the loop runs {answer} times, as the source says", "how often the loop runs is not known"),
    "is_interval": Words("`{0}` is true only for some steps", "`{0}` does not select some steps"),
    "is_debug": Words("`{0}` reads a debug flag", "`{0}` reads no debug flag"),
    "tests": Words("it depends on `{answer}`", "no condition stands around it"),
    "leaves": Words("the block always leaves the loop or function", "the block does not always leave"),
    "bench": Words(
        "this is benchmark or test code (by its path, a function's name or timing events), which does so on purpose",
        "this is neither benchmark nor test code",
    ),
    "error_path": Words(
        "it only runs on the way to an exception (a raise, an assert's message, an except block)",
        "it is not on the way to an exception",
    ),
    "on_demand": Words(
        "it only runs when somebody asks for it (a flag, a debug or profiling script)",
        "it runs whether or not somebody asks for it",
    ),
    "compiled": Words("the function is compiled by torch.compile", "the function is not compiled in this file"),
    "compiled_by": Words("the function is compiled (`{answer}`)", "no torch.compile of this file reaches the function"),
    "version_guarded": Words(
        "it is one branch of code for several versions of a library", "it is not code for one version of a library"
    ),
    "structural": Words(
        "the loop goes over parts of a network (layers, heads, parameters), not over data",
        "the loop goes over data, not over parts of a network",
    ),
    "steps": Words(
        "the loop holds a backward pass or an optimizer step", "the loop holds no backward or optimizer step"
    ),
    "is_step": Words("`{0}` is a backward or optimizer step", "`{0}` is no backward or optimizer step"),
    "runs_training": Words("training runs in there", "no training step runs in there"),
    "training_loop": Words("a training loop runs in there", "no training loop of more than a few steps runs in there"),
    "has_model_call": Words("a model runs in there", "no model runs in there"),
    "accumulation": Words(
        "the loop accumulates gradients", "the loop does not accumulate gradients over micro-batches"
    ),
    "step_counter": Words("the loop counts its steps in `{answer}`", "the loop does not count its steps"),
    "main_guard": Words('the file has `if __name__ == "__main__":`', 'the file has no `if __name__ == "__main__":`'),
    "mentions": Words("the file mentions what the rule looks for", "the file nowhere mentions what the rule looks for"),
    "meaning": Words("the name stands for `{answer}` there", "what the name stands for there is not known"),
    # -- values and devices -------------------------------------------------------------------------------------
    "value": Words("`{0}`: {answer}", "`{0}`: {answer}"),
    "on_device": Words("`{0}` is a tensor on the accelerator", "`{0}` is not known to be a tensor on the accelerator"),
    "on_device_from": Words(
        "the call `{answer}` passes a tensor on the accelerator", "no hot call passes a tensor on the accelerator"
    ),
    "accel": Words(
        "the file runs on an accelerator",
        "nothing in the file shows an accelerator (no cuda, no device, no nn.Module), or it is told to stay on the CPU",
    ),
    "devlike": Words("`{0}` names the device {answer}", "`{0}` does not name a device"),
    "class_attribute": Words("the class keeps {answer} there", "what the class keeps there is not known"),
    "scalar_reads": Words("`{0}` waits for a value on the device", "`{0}` reads no single value of a device tensor"),
    "host_copy": Words("`{0}` copies a device tensor to the host", "`{0}` copies no device tensor to the host"),
    "transfer": Words("`{0}` moves data to the accelerator", "`{0}` is no move to the accelerator"),
    "certainly_tensor": Words(
        "`{0}` is used as only a tensor is",
        "nothing proves that `{0}` is a tensor: other things have the same method (a graph, an encoding, a module)",
    ),
    "changed_later": Words("`{0}` is written in place after the move", "`{0}` is not written after the move"),
    "cached": Words("the result is kept, and a condition spares later calls the work", "the result is not kept"),
    "round_trip": Words("the data went to the host and comes back", "`{0}` is not the end of a trip to the host"),
    "accumulator": Words("it feeds a running sum that is read after the loop", "the sum is also read inside the loop"),
    "gathered": Words("the list is read after the loop only", "the list is also read inside the loop"),
    "read_before": Words("an `if` around it has read the same tensor already", "nothing has read the tensor before"),
    "one_tensor": Words("`{0}` is one tensor", "`{0}` may be a list or several tensors"),
    "one_dimensional": Words("`{0}` has one dimension", "`{0}` is not known to have one dimension"),
    "asked_for_type": Words("the code asks `{0}` for its type: it may be a list", "the code does not ask for its type"),
    "holds_device_tensors": Words("`{0}` holds tensors on the device", "`{0}` is not known to hold device tensors"),
    "element_reads": Words(
        "the loop reads every element on the host", "the loop does not read every element on the host"
    ),
    "host_constant": Words("`{0}` is a constant on the host", "`{0}` is not known to be a constant on the host"),
    "exact_dtype": Words("`{0}` is of dtype {answer}", "the dtype of `{0}` is not spelled in the source"),
    "cast_target": Words("`{0}` casts to {answer}", "`{0}` is no cast"),
    "named_dtype": Words("`{0}` names the dtype {answer}", "`{0}` names no dtype"),
    "array_dtype": Words("the array is of dtype {answer}", "the dtype of the array is not known"),
    "arrays": Words("all elements are arrays", "not all elements of `{0}` are known to be arrays"),
    "is_array": Words("`{0}` is an array", "`{0}` is not known to be an array"),
    "joined_afresh": Words("the array was just joined from others", "something else may hold the array"),
    "factories": Words("the values come from `{answer}`", "`{0}` is not made by a factory whose result moves"),
    "takes_device": Words("`{0}` takes device=", "`{0}` cannot take device=: an argument ties it to the CPU"),
    "device_effect": Words("device= would also change: {answer}", "device= changes nothing but the place"),
    "any_dtype": Words("`{0}` is exact in every dtype", "`{0}` is not exact in every dtype"),
    "fixed": Words("`{0}` is the same every time", "`{0}` may differ from one time to the next"),
    "sized": Words("`{0}` is a size of a tensor", "`{0}` is not a size of a tensor"),
    "number": Words("`{0}` is {answer}", "`{0}` is no literal number"),
    "operation": Words("`{0}` is a tensor operation", "`{0}` is not the operation that the rule is about"),
    "uses": Words("the value is used", "the value is not used"),
    "sole_use": Words("the value is used in one place", "the value of `{0}` is used in more than one place"),
    "written_attention": Words(
        "the softmax is the middle of written-out attention", "the softmax is not part of attention"
    ),
    "definition": Words("the name is bound once", "the name is bound more than once, or by something else"),
    "definitions": Words("it is known what binds the name", "it is not known what binds the name"),
    "readers": Words("the value is read", "nothing reads the value"),
    "assigned": Words("it is assigned", "nothing in the function or class assigns it"),
    # -- autograd -----------------------------------------------------------------------------------------------
    "no_grad": Words("autograd is off here", "autograd is on here, or a caller decides"),
    "furthest": Words("the value goes on: {answer}", "the value goes no further"),
    "differentiates": Words("the code asks for gradients", "the code asks for no gradients"),
    "frozen": Words("the file switches off the gradients of `{0}`", "the parameters of `{0}` are trained"),
    "detached_for_nothing": Words(
        "only the detached result is used",
        "its result is used with the graph, or the model is not trained in this file",
    ),
    "proves_no_grad": Words("the function would raise if a graph were recorded", "the function may record a graph"),
    "is_model_call": Words("`{0}` runs a model", "`{0}` is not known to run a model"),
    # -- loops --------------------------------------------------------------------------------------------------
    "over": Words("the loop goes over one thing", "it is not known what the loop goes over"),
    "over_parameters": Words("the loop goes over parameters", "the loop does not go over parameters"),
    "reset": Words("every iteration starts `{1}` anew", "`{1}` grows over the iterations"),
    "carried": Words("an iteration reads what an earlier one has bound", "no iteration needs an earlier one"),
    "independent": Words(
        "no iteration needs an earlier one", "an iteration needs what an earlier one made, or ends the loop"
    ),
    "only_tensor_work": Words("the loop does tensor work only", "the loop does more than tensor work"),
    "is_loader": Words("`{0}` is a loader", "`{0}` is not known to be a loader"),
    "arguments": Words("the call gives an argument that decides", "the call leaves the argument out"),
    "keyword": Words("the call gives `{1}={answer}`", "the call does not give `{1}`"),
    # -- loaders and samples ------------------------------------------------------------------------------------
    "makes_loader": Words("`{0}` makes a DataLoader", "`{0}` makes no DataLoader"),
    "loader_loops": Words("a loop of this file goes over the loader", "no loop of this file goes over the loader"),
    "loader_role": Words(
        "no training loop of this file goes over the loader (its role: {answer})", "its role is not known"
    ),
    "sample_cost": Words(
        "fetching a sample reads, decodes or augments",
        "fetching a sample only indexes memory, or what it does is not known",
    ),
    "cuda_samples": Words(
        "the dataset or collate function puts samples on the device itself", "the samples are made on the CPU"
    ),
    "streams": Words("`{0}` is iterable: each worker would repeat the stream", "`{0}` is a map-style dataset"),
    "streams_rows": Words("the file streams its dataset", "the file does not stream its dataset"),
    "pins": Words("the loader pins its batches", "whether the loader pins its batches is decided elsewhere"),
    "workers": Words("the loader has {answer} workers", "the number of workers is not a literal"),
    "works": Words(
        "the function reads files, decodes or transforms", "the function does no such work, or it is not known"
    ),
    "feeding": Words("the batch comes from `{answer}`", "it is not known which loader makes the batch"),
    "moves_batches": Words("the batches go to {answer}", "the batches of the loader are not moved to a device there"),
    "batches_go_to": Words(
        "the loops bring their batches to {answer}", "no loop of the file brings batches to a device"
    ),
    "sample_role": Words("the code makes a {answer} inside of a loader", "the code does not run inside of a loader"),
    "loaders_of": Words("a loader goes over the dataset", "no loader of this file goes over the dataset"),
    "loaders_running": Words(
        "the loader `{answer}` runs this code", "no loader of this file runs this code in workers"
    ),
    "is_dataset": Words("the class is a dataset", "the class is no dataset"),
    "token_map": Words("the map hands rows to a tokenizer", "`{0}` is no map that hands rows to a tokenizer"),
    # -- logging ------------------------------------------------------------------------------------------------
    "logging_call": Words("`{0}` logs", "`{0}` is no logging call"),
    "logged_in": Words("the value is only logged", "the value is not only logged"),
    "shown_tensors": Words("the call turns a device tensor into text", "the call is handed no device tensor to show"),
    # -- frameworks and processes -------------------------------------------------------------------------------
    "framework": Words(
        "a framework that moves batches or owns the loop is imported (Lightning, Accelerate, Ignite, …)",
        "no framework that moves batches is imported",
    ),
    "is_lightning": Words("it is code of a LightningModule", "it is not code of a LightningModule"),
    "lightning_step": Words(
        "Lightning runs it for every batch, in {answer}()", "Lightning does not run it for each batch"
    ),
    "lightning_trainer": Words("`{0}` makes a Lightning Trainer", "`{0}` makes no Lightning Trainer"),
    "logged_by": Words("`{answer}` logs the value", "self.log is not handed the value"),
    "metric": Words("`{0}` is a torchmetrics metric", "`{0}` is not known to be a torchmetrics metric"),
    "steers": Words("the value chooses what the host does", "no condition reads the value"),
    "read_as_number": Words("the copy only serves a scalar read", "the copy is not for a scalar read"),
    "training_arguments": Words("`{0}` makes TrainingArguments", "`{0}` makes no TrainingArguments"),
    "costly_for_trainer": Words(
        "what the Trainer loads is costly", "nothing in the file shows that what the Trainer loads is costly"
    ),
    "replica_wraps": Words("the file wraps a model in DistributedDataParallel", "the file wraps no model in DDP"),
    "is_replica": Words("`{0}` is a DDP model", "`{0}` is not known to be a DDP model"),
    "runs_replica": Words("a DDP model runs in the loop", "no DDP model runs in the loop"),
    "saves_memory": Words("a setting about memory asks for it", "no setting about memory asks for it"),
    # -- layers and imports -------------------------------------------------------------------------------------
    "called_at_once": Words("the new module is called at once", "the new module is kept, or goes elsewhere"),
    "is_network": Words("the class is an nn.Module", "the class is no nn.Module"),
    "next_layer": Words("the next layer is `{answer}`", "the next layer is not known, or not the only one"),
    "stays": Words("the new object is only used here", "the new object is handed to other code"),
    "said": Words("a file of the project says so", "no file of the project says so"),
    "is_exported": Words("other files may use the name", "no other file uses the name"),
}
"""Question → its words. A question of type yes or no may decide alone why a rule is silent."""

TREE = frozenset(
    (
        "ancestors base_names before binds_globally call_sites called callees class_of code contexts family "
        "function import_of import_reads is_within local_class loops method name names_in nodes parent reads same "
        "small_statement source spare statement use within writes"
    ).split()
)
"""Questions that read what is written: their answers need no words, the reader sees the line."""

PLAIN = frozenset(("filename", "once", "root", "target_torch", "text"))
"""What a rule reads of a module, or keeps with it, that is no question."""
