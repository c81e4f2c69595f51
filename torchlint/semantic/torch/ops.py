"""What torch's operations do: one row each, and the questions that code asks of the rows. Data
only.

A row is a name, where it is found (`FORMS`), its kind (`KINDS`), and what else is true of it
(`FACTS`). To add an operation, add its row; a test looks up each row in torch and tries what can be
tried there. Where a name means two things, as ``Tensor.device`` and ``torch.device`` do, it has two
rows.

    having("method", "view")              names: the methods that are views
    having("pointwise") | having("cast")  either kind
    dotted("torch", "random")             as written: ``torch.rand`` …
    values("dtype", "method")             what stands behind the equals sign: ``{"long": "int64", …}``

Sources: torch 2.13 itself, by running it, and its documentation.
"""  # noqa: E501

from __future__ import annotations

FORMS = {
    "torch": "torch.",
    "linalg": "torch.linalg.",
    "special": "torch.special.",
    "fft": "torch.fft.",
    "nn": "torch.nn.functional.",
    "layer": "torch.nn.",
    "optimizer": "torch.optim.",
    "distributed": "torch.distributed.",
    "aten": "aten::",
    "method": "",
    "attribute": "",
    "module": "",
}
"""Where an operation is found, and what its name is written behind; a method of tensors, or of
``nn.Module``."""

KINDS = {
    "same": "alias",
    "view": "alias",
    "cast": "alias keeps-rank",
    "move": "alias",
    "copy": "fresh",
    "pointwise": "fresh keeps-rank",
    "compare": "fresh gives-bool",
    "reduce": "fresh",
    "along": "fresh",
    "product": "fresh",
    "pick": "fresh",
    "repeats": "fresh",
    "join": "fresh",
    "neural": "fresh",
    "loss": "fresh",
    "factory": "",
    "from-data": "",
    "new": "fresh",
    "in-place": "",
    "reads": "",
    "fact": "",
    "graph": "",
    "apart": "",
    "internal": "",
    "owner": "",
    "built": "",
    "collective": "",
}
"""Kinds of operations, and the facts that hold for each of a kind."""

FACTS = {
    # kinds
    "same": "the tensor itself, or its values without a graph or in other memory",
    "view": (
        "the same elements in another shape or order, in the same memory where that is possible"
    ),
    "cast": "the values in another dtype",
    "move": "the values on another device",
    "copy": "the values in new memory",
    "pointwise": "one number out of each",
    "compare": "one truth value out of each",
    "reduce": "one number, or with ``dim`` fewer of them",
    "along": "as many numbers, each out of several along a dimension",
    "product": "sums of products",
    "pick": "some of the elements, chosen by others or by their values",
    "repeats": "the same elements again, or in another order, in new memory",
    "join": "several tensors in one",
    "neural": "what layers compute",
    "loss": "one number, of a prediction and a target",
    "factory": "makes a tensor of a size, and takes ``device=``",
    "from-data": "makes a tensor of host data",
    "new": "makes a tensor where another lies",
    "in-place": "writes into the tensor and gives it back",
    "reads": "numbers in host memory",
    "fact": "what the host knows of a tensor: it costs no wait",
    "graph": "asks autograd for something",
    "apart": "gives no tensor",
    "internal": "an operator below the functions that people call",
    "owner": "of a module, not of a tensor",
    "built": "a class: calling it makes the thing that computes",
    "collective": "what all processes do together",
    # what a kind implies
    "alias": "the result is the tensor itself, or may share its memory",
    "fresh": "the result has memory of its own, and the tensor stays as it is",
    "keeps-rank": "the result has as many dimensions as the tensor, or as the larger operand",
    "gives-bool": "the result is of truth values, whatever the tensor holds",
    "waits": "the host waits for the device, where the tensor lies on one",
    # shapes
    "part": "a view of some of the elements",
    "no-copy": "never copies, whatever the strides",
    "turns": "another order of the dimensions",
    "keeps-last": "used so that the last dimension stays",
    "flat": "gives one dimension",
    "flattens": "gives one dimension where it is called without arguments",
    "several": "gives several tensors",
    "several-with-more": "gives several tensors where it is called with more than the tensor",
    "several-on-request": "gives several tensors where an argument asks for them",
    "values-decide": "how many elements the result has depends on values",
    "sizes": "its arguments are sizes or positions, which the host must know",
    "only-sizes": "all its positional arguments are sizes",
    "sets": "whatever the elements were, writes the same number into each",
    "spreads": "a view in which elements stand several times",
    # numbers
    "dtype": "the dtype of the result",
    "gives": "of a layer: output and ``state``, output and a ``pair`` of states, or two ``cells``",
    "steps": "of a recurrent layer or cell: the layer that runs all steps in one call",
    "gives-int": "the result is of integers, whatever the tensor holds",
    "gives-float": "the result is of fractions, whatever the tensor holds",
    "second-whole": "where it gives two tensors, the second is of integers",
    "keeps-whole": "of integers come integers",
    "counts": "of truth values come integers",
    "exact": "gives the same bits on each device",
    "zero-one": "its numbers are zeros and ones, which each dtype holds",
    "whole": "gives integers where all arguments are",
    "random": "draws random numbers",
    "finite": "asks for NaN or infinity",
    "arithmetic": "the in-place steps of which optimizers are written",
    "adds": "adds up or counts the elements: a zero in place of one changes no sum",
    "square": "squares, or sums squares",
    "norm": "a norm",
    "log": "the operation that computes its logarithm, without underflow",
    "numpy": "the functions of NumPy that compute the same",
    "precise": "often computed in float64 on purpose",
    "mask": "used to mask scores",
    "triangle": "zeros on one side of a diagonal, the elements themselves on the other",
    "no-integers": "CUDA has no kernel of it for integers, as the CPU has",
    "batched": "multiplies matrices of a batch",
    "operator": "the class of libcst for its operator",
    "is": "the usual name of the same operation",
    "class": "the class in torch.nn that computes the same",
    # autograd
    "cuts": "the result has no graph",
    "wants-graph": "needs the graph of the tensor",
    # whose name it is
    "own": "no string, list, array, path or module has a method of that name",
    "hint": "arrays, strings, paths or modules have a method of that name as well",
    "array": "arrays have it as well, but no array is the input of a network",
    "weak": "a tensor has it, and little else that is passed to functions",
    "chains": "a method of modules that gives the module itself",
    "plain": "changes nothing about what calling the module computes",
    # classes
    "parameters": "has weights",
    "one-tensor": "gives one tensor of floating numbers",
    "bias": "the position of the argument ``bias``",
    "batch-norm": "subtracts the mean over the batch",
    "instance-norm": "subtracts the mean of each channel of each sample",
    "fused": "has one kernel for all parameters, and no harm is known",
    "fills": "the position and the name of the argument that the result lands in",
    "barrier": "only waits for the other processes",
    # others
    "like": "makes it as another tensor is",
    "truth": "gives a truth value",
    "context": "used in a ``with``, and hides no exception",
    "no-graph": "switches autograd off for its block",
    "stateless": "has no weights",
    "foreach": "updates all parameters at once where it can",
    "whole-device": "waits for all work on a device",
    "stream": "gives a stream",
    "on-stream": "a context in which work goes to a stream of its own",
    "empties": "gives cached memory back to the driver",
    "host-memory": "needs or makes elements that lie in host memory",
    "to-host": "copies all elements to host memory, or can",
    "with-to": "of what has a method ``to``, tensors alone have it",
    "own-dtype": "keeps the dtype of an array or a tensor that it is given",
    "lists": "takes nested lists",
    # the ledger of `verify`
    "placed": "lies where the tensors lie that it is made of",
    "cost": (
        "what the host waits for, on CUDA tensors: bytes, or the name of a condition in the ledger"
    ),
    "says": "the name under which a wait is reported",
    "mixes": "takes tensors of both sides",
    "strict": "refuses even a number in host memory",
}
"""The words of the rows."""

_ROWS = """
detach                    method same own cuts no-copy keeps-whole keeps-rank weak
detach_                   method same own cuts no-copy keeps-whole keeps-rank
requires_grad_            method same hint no-copy keeps-rank
contiguous                method same own keeps-whole keeps-rank keeps-last
pin_memory                method same own keeps-rank host-memory
autograd.Variable         torch same
resolve_conj              torch method same
resolve_neg               torch method same
positive                  torch method same
clone                     torch method copy keeps-whole keeps-rank keeps-last
data                      attribute view cuts
T                         attribute view
mT                        attribute view
H                         attribute view
mH                        attribute view
real                      attribute view
imag                      attribute view
view                      method view no-copy keeps-whole sizes keeps-last weak with-to
view_as                   method view own no-copy keeps-whole
reshape                   torch method view keeps-whole sizes keeps-last weak with-to
reshape_as                method view keeps-whole
flatten                   torch method view keeps-whole flattens with-to array
unflatten                 torch method view no-copy sizes keeps-last
ravel                     torch method view flattens array
transpose                 torch method view no-copy turns keeps-whole
t                         torch method view no-copy turns keeps-whole array
permute                   torch method view own no-copy turns keeps-whole
movedim                   torch method view no-copy turns
moveaxis                  torch method view no-copy turns
swapaxes                  torch method view no-copy turns array
swapdims                  torch method view no-copy turns
adjoint                   torch method view no-copy turns
squeeze                   torch method view no-copy keeps-whole keeps-last array
unsqueeze                 torch method view own no-copy keeps-whole keeps-last weak
expand                    method view hint no-copy keeps-whole sizes spreads
expand_as                 method view own no-copy keeps-whole spreads
broadcast_to              torch method view no-copy spreads
atleast_1d                torch view
atleast_2d                torch view
narrow                    torch method view own part no-copy sizes
select                    torch method view part no-copy
diagonal                  torch method view part no-copy array
unfold                    method view part no-copy
split                     torch method view part several no-copy
split_with_sizes          torch method view part several no-copy
tensor_split              torch method aten view part several no-copy mixes
chunk                     torch method view hint part several no-copy
hsplit                    torch method view part several no-copy
vsplit                    torch method view part several no-copy
dsplit                    torch method view part several no-copy
unbind                    torch method view own part several no-copy
meshgrid                  torch view several
broadcast_tensors         torch view several
float                     method cast dtype=float32 array
double                    method cast dtype=float64
half                      method cast dtype=float16 hint
bfloat16                  method cast dtype=bfloat16 hint
long                      method cast dtype=int64 gives-int array with-to
int                       method cast dtype=int32 gives-int
short                     method cast dtype=int16 gives-int
bool                      method cast dtype=bool gives-bool
byte                      method cast dtype=uint8 gives-int
char                      method cast dtype=int8 gives-int
type                      method cast fact to-host
type_as                   method cast move own
to                        method aten cast move to-host mixes
cpu                       method move waits host-memory to-host
cuda                      method move
abs                       torch method pointwise keeps-whole array numpy=abs/absolute
exp                       torch method pointwise array numpy=exp gives-float
log                       torch method pointwise array numpy=log gives-float
sqrt                      torch method pointwise array numpy=sqrt gives-float
square                    torch method pointwise square array
neg                       torch method pointwise keeps-whole
sigmoid                   torch method nn pointwise hint log=logsigmoid gives-float
tanh                      torch method pointwise hint gives-float
relu                      torch method pointwise hint
expm1                     torch method pointwise gives-float
log2                      torch method pointwise gives-float
log10                     torch method pointwise gives-float
log1p                     torch method pointwise gives-float
rsqrt                     torch method pointwise gives-float
reciprocal                torch method pointwise
sign                      torch method pointwise numpy=sign
round                     torch method pointwise array
floor                     torch method pointwise
ceil                      torch method pointwise
trunc                     torch method pointwise
sin                       torch method pointwise
cos                       torch method pointwise
tan                       torch method pointwise
atan                      torch method pointwise
erf                       torch method pointwise
nan_to_num                torch method pointwise mask
clamp                     torch method pointwise hint keeps-whole numpy=clip
clamp_min                 torch method pointwise own
clamp_max                 torch method pointwise own
clip                      torch method pointwise array
pow                       torch method pointwise hint square array
add                       torch method pointwise mask operator=Add
sub                       torch method pointwise mask operator=Subtract
mul                       torch method pointwise operator=Multiply
div                       torch method pointwise operator=Divide
multiply                  torch method pointwise is=mul
divide                    torch method pointwise is=div
true_divide               torch method pointwise is=div
subtract                  torch method pointwise is=sub
expit                     special pointwise is=sigmoid
floor_divide              torch method pointwise
remainder                 torch method pointwise
fmod                      torch method pointwise
lerp                      torch method pointwise
maximum                   torch method pointwise
minimum                   torch method pointwise
bernoulli                 torch method pointwise random
frexp                     torch method pointwise several
eq                        torch method compare hint
ne                        torch method compare hint
lt                        torch method compare hint
le                        torch method compare hint
gt                        torch method compare hint
ge                        torch method compare hint
not_equal                 torch method compare is=ne
less                      torch method compare is=lt
less_equal                torch method compare is=le
greater                   torch method compare is=gt
greater_equal             torch method compare is=ge
isclose                   torch method compare
logical_and               torch method compare own
logical_or                torch method compare
logical_not               torch method compare own
logical_xor               torch method compare
isnan                     torch method compare finite
isinf                     torch method compare finite
isfinite                  torch method compare finite
isposinf                  torch method compare finite
isneginf                  torch method compare finite
isin                      torch compare
signbit                   torch method compare
sum                       torch method reduce adds keeps-whole counts array
prod                      torch method reduce keeps-whole counts array
nansum                    torch method reduce adds keeps-whole counts
mean                      torch method reduce adds array gives-float
nanmean                   torch method reduce adds gives-float
var                       torch method reduce gives-float array
std                       torch method reduce gives-float array
norm                      torch method reduce hint norm gives-float
vector_norm               linalg reduce norm gives-float
dist                      torch method reduce
logsumexp                 torch method reduce own gives-float
amax                      torch method reduce keeps-whole
amin                      torch method reduce keeps-whole
max                       torch method reduce keeps-whole several-with-more array second-whole
min                       torch method reduce keeps-whole several-with-more array second-whole
median                    torch method reduce several-with-more second-whole
nanmedian                 torch method reduce several-with-more second-whole
any                       torch method reduce adds gives-bool array
all                       torch method reduce gives-bool array
argmax                    torch method reduce gives-int array numpy=argmax
argmin                    torch method reduce gives-int array numpy=argmin
count_nonzero             torch method reduce adds gives-int
quantile                  torch method reduce
aminmax                   torch method reduce several
std_mean                  torch reduce several
var_mean                  torch reduce several
cumsum                    torch method along hint keeps-whole counts array
cumprod                   torch method along array
cummax                    torch method along several second-whole
cummin                    torch method along several second-whole
softmax                   torch method nn along hint log=log_softmax gives-float
log_softmax               torch method nn along own gives-float
sort                      torch method along several second-whole
argsort                   torch method along hint gives-int array numpy=argsort
matmul                    torch method product no-integers hint batched operator=MatrixMultiply
bmm                       torch method product no-integers own batched
einsum                    torch product no-integers batched
mm                        torch method product no-integers own
mv                        torch method product no-integers
addmm                     torch method product no-integers own
baddbmm                   torch method product no-integers
dot                       torch method product no-integers square
vdot                      torch method product no-integers square
outer                     torch method product
cdist                     torch product
masked_fill               torch method aten pick own mask cost=device-value
masked_select             torch method aten pick own keeps-whole values-decide waits cost=4
gather                    torch method pick own keeps-whole
index_select              torch method pick own keeps-whole
index_fill                torch method aten pick cost=device-value
scatter                   torch method pick own
scatter_add               torch method pick
take                      torch method pick
topk                      torch method pick hint several second-whole
kthvalue                  torch method pick several second-whole
mode                      torch method pick several second-whole
nonzero torch method aten pick hint gives-int several-on-request values-decide waits cost=4
argwhere                  torch method pick values-decide waits numpy=argwhere
unique                    torch method pick array several-with-more values-decide waits
unique_consecutive torch method aten pick several-with-more values-decide waits cost=any-element
where torch method aten pick mask several-on-request numpy=where cost=host-numbers
bincount                  torch method aten pick gives-int waits cost=extremes
histc                     torch method aten pick waits cost=extremes-or-range
multinomial               torch method aten pick gives-int random cost=old-draws
histogram                 torch method pick several
tril                      torch method pick triangle keeps-rank
triu                      torch method pick triangle keeps-rank
diag                      torch method pick
repeat                    method repeats keeps-whole sizes array
repeat_interleave         torch method aten repeats cost=no-size-given
tile                      torch method repeats
flip                      torch method repeats keeps-whole
roll                      torch method repeats keeps-whole
cat                       torch aten join keeps-whole strict
concat                    torch join
concatenate               torch join
stack                     torch aten join keeps-whole strict
hstack                    torch join
vstack                    torch join
dstack                    torch join
row_stack                 torch join
column_stack              torch join
logsigmoid                nn neural
softplus                  nn neural
gelu                      nn neural
one_hot                   nn neural
normalize                 nn neural
pad                       nn neural
interpolate               nn neural sizes
fold                      nn neural
unfold                    nn neural
pairwise_distance         nn neural
cosine_similarity         torch nn neural
qr                        torch method neural several
svd                       torch method neural several precise
eigh                      linalg neural several precise
lu                        torch method neural several
eig                       linalg neural several precise
inverse                   torch method neural precise
pinverse                  torch method neural precise
solve                     linalg neural precise
lu_solve                  torch method neural precise
cholesky                  torch method neural precise
logdet                    torch method neural precise
lstsq                     linalg neural several precise
slogdet                   torch method neural several precise
cross_entropy             nn loss class=CrossEntropyLoss
nll_loss                  nn loss class=NLLLoss
mse_loss                  nn loss class=MSELoss
l1_loss                   nn loss class=L1Loss
smooth_l1_loss            nn loss class=SmoothL1Loss
huber_loss                nn loss class=HuberLoss
binary_cross_entropy      nn loss class=BCELoss
binary_cross_entropy_with_logits nn loss class=BCEWithLogitsLoss
kl_div                    nn loss class=KLDivLoss
ctc_loss                  nn loss class=CTCLoss
hinge_embedding_loss      nn loss class=HingeEmbeddingLoss
margin_ranking_loss       nn loss class=MarginRankingLoss
cosine_embedding_loss     nn loss class=CosineEmbeddingLoss
triplet_margin_loss       nn loss class=TripletMarginLoss
poisson_nll_loss          nn loss class=PoissonNLLLoss
gaussian_nll_loss         nn loss class=GaussianNLLLoss
multi_margin_loss         nn loss class=MultiMarginLoss
soft_margin_loss          nn loss class=SoftMarginLoss
multilabel_margin_loss    nn loss class=MultiLabelMarginLoss
multilabel_soft_margin_loss nn loss class=MultiLabelSoftMarginLoss
zeros                     torch factory exact zero-one sizes only-sizes
ones                      torch factory exact zero-one sizes only-sizes
full                      torch factory sizes
empty                     torch factory exact sizes only-sizes
eye                       torch factory exact zero-one sizes
arange                    torch factory sizes flat whole
range                     torch factory
linspace                  torch factory sizes flat
logspace                  torch factory flat
tril_indices              torch factory exact whole
triu_indices              torch factory exact whole
empty_strided             torch factory
empty_permuted            torch factory
empty_quantized           torch factory
scalar_tensor             torch factory
rand                      torch factory random sizes only-sizes
randn                     torch factory random sizes only-sizes
randint                   torch factory random whole
randperm                  torch factory random sizes flat whole
normal                    torch aten factory random placed cost=drawn-deviation
sparse_coo_tensor         torch factory placed
zeros_like                torch factory fresh exact zero-one like
ones_like                 torch factory fresh exact zero-one like
full_like                 torch factory fresh like
empty_like                torch factory fresh exact like
rand_like                 torch factory fresh random like
randn_like                torch factory fresh random like
randint_like              torch factory random like
hann_window               torch factory
hamming_window            torch factory
blackman_window           torch factory
bartlett_window           torch factory
kaiser_window             torch factory
fftfreq                   fft factory
rfftfreq                  fft factory
sparse_compressed_tensor  torch factory placed
sparse_csr_tensor         torch factory placed
sparse_csc_tensor         torch factory placed
sparse_bsr_tensor         torch factory placed
sparse_bsc_tensor         torch factory placed
tensor                    torch from-data fresh own-dtype lists
as_tensor                 torch from-data alias own-dtype lists
asarray                   torch from-data alias own-dtype lists
from_numpy                torch from-data alias own-dtype
frombuffer                torch from-data alias
Tensor                    torch from-data alias lists
FloatTensor               torch from-data alias lists
LongTensor                torch from-data alias lists
DoubleTensor              torch from-data alias lists
IntTensor                 torch from-data alias lists
ByteTensor                torch from-data alias lists
BoolTensor                torch from-data alias lists
HalfTensor                torch from-data alias lists
new                       method new
new_tensor                method new own
new_zeros                 method new own sizes
new_ones                  method new own sizes
new_empty                 method new sizes
new_full                  method new own
new_empty_strided         method new
add_                      method in-place own arithmetic keeps-rank
sub_                      method in-place own arithmetic keeps-rank
mul_                      method in-place own arithmetic keeps-rank
div_                      method in-place own arithmetic keeps-rank
neg_                      method in-place arithmetic keeps-rank
pow_                      method in-place arithmetic
sqrt_                     method in-place arithmetic
addcmul_                  method in-place arithmetic
addcdiv_                  method in-place arithmetic
lerp_                     method in-place arithmetic
copy_                     method aten in-place hint arithmetic mixes
clamp_                    method in-place own keeps-rank
fill_                     method aten in-place own mixes sets
zero_                     method in-place own sets
masked_fill_              method aten in-place own cost=device-value
index_add_                method in-place own
index_fill_               method aten in-place cost=device-value
scatter_                  method in-place own
scatter_add_              method in-place own
unsqueeze_                method in-place own
squeeze_                  method in-place
t_                        method in-place
transpose_                method in-place own
swapaxes_                 method in-place
swapdims_                 method in-place
resize_                   method in-place
resize_as_                method aten in-place mixes
sparse_resize_            method in-place
as_strided_               method in-place
set_                      method aten in-place mixes
share_memory_             method in-place host-memory
item                      method aten reads hint host-memory cost=element waits
tolist                    method reads host-memory to-host waits
numpy                     method reads alias host-memory
equal                     torch method aten apart fresh truth waits cost=other-memory
allclose                  torch method aten apart fresh truth waits cost=1
is_nonzero                torch method aten apart truth waits cost=element
shape                     attribute fact array with-to
dtype                     attribute fact weak
device                    attribute fact weak
ndim                      attribute fact with-to array
requires_grad             attribute fact with-to
is_leaf                   attribute fact
is_cuda                   attribute fact with-to
grad_fn                   attribute fact
names                     attribute fact
layout                    attribute fact
itemsize                  attribute fact
nbytes                    attribute fact
is_sparse                 attribute fact
is_quantized              attribute fact
is_meta                   attribute fact
size                      method fact weak
dim                       method fact
ndimension                method fact
numel                     method fact own
nelement                  method fact own
stride                    method fact
storage_offset            method fact
is_contiguous             method fact own
is_floating_point         method fact own
is_complex                method fact
is_signed                 method fact
is_pinned                 method fact
is_shared                 method fact
has_names                 method fact
is_coalesced              method fact own
is_conj                   method fact own
is_inference              method fact own
is_neg                    method fact own
sparse_dim                method fact own
dense_dim                 method fact own
_nnz                      method fact own
_is_view                  method fact own
is_set_to                 method fact own
is_same_size              method fact own
element_size              method fact
dim_order                 method fact
get_device                method fact
data_ptr                  method fact host-memory
__len__                   method fact
backward                  method graph own wants-graph
retain_grad               method graph own wants-graph
register_hook             method graph fact hint wants-graph
is_tensor                 torch apart truth fact
is_floating_point         torch apart truth fact
is_complex                torch apart truth fact
is_grad_enabled           torch apart
get_default_dtype         torch apart
set_default_dtype         torch apart
set_default_device        torch apart
manual_seed               torch apart
seed                      torch apart
initial_seed              torch apart
load                      torch apart
save                      torch apart
compile                   torch apart
no_grad                   torch apart no-graph context
enable_grad               torch apart wants-graph context
inference_mode            torch apart no-graph context
set_grad_enabled          torch apart context
device                    torch apart context
Generator                 torch apart
get_rng_state             torch apart
set_rng_state             torch apart
numel                     torch apart fact
set_num_threads           torch apart
get_num_threads           torch apart
set_printoptions          torch apart
use_deterministic_algorithms torch apart
typename                  torch apart
finfo                     torch apart
iinfo                     torch apart
autocast                  torch apart context
Size                      torch apart
set_float32_matmul_precision torch apart
dtype                     torch apart
broadcast_shapes          torch apart
result_type               torch apart
is_storage                torch apart
jit                       torch apart
export                    torch apart
version                   torch apart
vmap                      torch apart
func                      torch apart
compiler                  torch apart
overrides                 torch apart
package                   torch apart
hub                       torch apart
onnx                      torch apart
are_deterministic_algorithms_enabled torch apart
to                        module owner chains plain
cuda                      module owner chains plain
cpu                       module owner chains plain
float                     module owner chains
double                    module owner chains
half                      module owner chains
train                     module owner chains plain
eval                      module owner chains plain
requires_grad_            module owner chains
bfloat16                  module owner chains
type                      module owner chains
apply                     module owner chains
zero_grad                 module owner plain
parameters                module owner plain
named_parameters          module owner plain
state_dict                module owner plain
load_state_dict           module owner plain
register_backward_hook    module owner wants-graph
register_full_backward_hook module owner wants-graph
Linear                    layer built parameters one-tensor bias=3
LazyLinear                layer built parameters bias=2
Bilinear                  layer built parameters
Conv1d                    layer built parameters one-tensor bias=8
LazyConv1d                layer built parameters bias=7
ConvTranspose1d           layer built parameters bias=8
LazyConvTranspose1d       layer built parameters bias=7
BatchNorm1d               layer built parameters one-tensor batch-norm
LazyBatchNorm1d           layer built parameters batch-norm
Conv2d                    layer built parameters one-tensor bias=8
LazyConv2d                layer built parameters bias=7
ConvTranspose2d           layer built parameters bias=8
LazyConvTranspose2d       layer built parameters bias=7
BatchNorm2d               layer built parameters one-tensor batch-norm
LazyBatchNorm2d           layer built parameters batch-norm
Conv3d                    layer built parameters one-tensor bias=8
LazyConv3d                layer built parameters bias=7
ConvTranspose3d           layer built parameters bias=8
LazyConvTranspose3d       layer built parameters bias=7
BatchNorm3d               layer built parameters one-tensor batch-norm
LazyBatchNorm3d           layer built parameters batch-norm
SyncBatchNorm             layer built parameters batch-norm
InstanceNorm1d            layer built instance-norm
LazyInstanceNorm1d        layer built instance-norm
InstanceNorm2d            layer built instance-norm
LazyInstanceNorm2d        layer built instance-norm
InstanceNorm3d            layer built instance-norm
LazyInstanceNorm3d        layer built instance-norm
LayerNorm                 layer built parameters one-tensor
Embedding                 layer built parameters one-tensor
EmbeddingBag              layer built parameters
GroupNorm                 layer built parameters
RMSNorm                   layer built parameters
LSTM                      layer built parameters steps=LSTM gives=pair
LSTMCell                  layer built parameters steps=LSTM gives=cells
GRU                       layer built parameters steps=GRU gives=state
GRUCell                   layer built parameters steps=GRU
RNN                       layer built parameters steps=RNN gives=state
RNNCell                   layer built parameters steps=RNN
MultiheadAttention        layer built parameters
Transformer               layer built parameters
TransformerEncoder        layer built parameters
TransformerEncoderLayer   layer built parameters
TransformerDecoder        layer built parameters
TransformerDecoderLayer   layer built parameters
PReLU                     layer built parameters
AdaptiveAvgPool1d         layer built stateless
AdaptiveAvgPool2d         layer built stateless
AdaptiveAvgPool3d         layer built stateless
AdaptiveMaxPool1d         layer built stateless
AdaptiveMaxPool2d         layer built stateless
AdaptiveMaxPool3d         layer built stateless
AlphaDropout              layer built stateless
AvgPool1d                 layer built stateless
AvgPool2d                 layer built stateless
AvgPool3d                 layer built stateless
CELU                      layer built stateless
ChannelShuffle            layer built stateless
CircularPad1d             layer built stateless
CircularPad2d             layer built stateless
CircularPad3d             layer built stateless
ConstantPad1d             layer built stateless
ConstantPad2d             layer built stateless
ConstantPad3d             layer built stateless
CosineSimilarity          layer built stateless
Dropout                   layer built stateless
Dropout1d                 layer built stateless
Dropout2d                 layer built stateless
Dropout3d                 layer built stateless
ELU                       layer built stateless
FeatureAlphaDropout       layer built stateless
Flatten                   layer built stateless
Fold                      layer built stateless
FractionalMaxPool2d       layer built stateless
FractionalMaxPool3d       layer built stateless
GELU                      layer built stateless
GLU                       layer built stateless
Hardshrink                layer built stateless
Identity                  layer built stateless
LPPool1d                  layer built stateless
LPPool2d                  layer built stateless
LPPool3d                  layer built stateless
LeakyReLU                 layer built stateless
LogSigmoid                layer built stateless
LogSoftmax                layer built stateless
MaxPool1d                 layer built stateless
MaxPool2d                 layer built stateless
MaxPool3d                 layer built stateless
PairwiseDistance          layer built stateless
PixelShuffle              layer built stateless
RReLU                     layer built stateless
ReLU                      layer built stateless
ReLU6                     layer built stateless
ReflectionPad1d           layer built stateless
ReflectionPad2d           layer built stateless
ReflectionPad3d           layer built stateless
ReplicationPad1d          layer built stateless
ReplicationPad2d          layer built stateless
ReplicationPad3d          layer built stateless
SELU                      layer built stateless
SiLU                      layer built stateless
Sigmoid                   layer built stateless is=sigmoid
Softmax                   layer built stateless is=softmax
Softmax2d                 layer built stateless
Softplus                  layer built stateless
Softshrink                layer built stateless
Tanh                      layer built stateless
Tanhshrink                layer built stateless
Unflatten                 layer built stateless
Unfold                    layer built stateless
Upsample                  layer built stateless
ZeroPad1d                 layer built stateless
ZeroPad2d                 layer built stateless
ZeroPad3d                 layer built stateless
Adadelta                  optimizer built foreach
Adagrad                   optimizer built foreach
Adamax                    optimizer built foreach
AdamW                     optimizer built foreach fused
Adam                      optimizer built foreach fused
ASGD                      optimizer built foreach
NAdam                     optimizer built foreach
RAdam                     optimizer built foreach
RMSprop                   optimizer built foreach
Rprop                     optimizer built foreach
SGD                       optimizer built foreach
all_reduce                distributed collective fills=0:tensor
reduce                    distributed collective fills=0:tensor
all_gather                distributed collective fills=0:tensor_list
all_gather_object         distributed collective fills=0:object_list
gather_object             distributed collective fills=1:object_gather_list
broadcast_object_list     distributed collective fills=0:object_list
barrier                   distributed collective barrier
monitored_barrier         distributed collective barrier
amp.autocast              torch apart context
amp.autocast_mode.autocast torch apart context
cuda.amp.autocast         torch apart context
cpu.amp.autocast          torch apart context
autograd.set_detect_anomaly torch apart context
autograd.detect_anomaly   torch apart context
autograd.set_grad_enabled torch apart context
autograd.no_grad          torch apart context
profiler.profile          torch apart context
profiler.record_function  torch apart context
autograd.profiler.record_function torch apart context
autograd.profiler.profile torch apart context
cuda.stream               torch apart context on-stream
cuda.StreamContext        torch apart on-stream
xpu.stream                torch apart on-stream
cuda.device               torch apart context
random.fork_rng           torch apart context
backends.cudnn.flags      torch apart context
nn.attention.sdpa_kernel  torch apart context
backends.cuda.sdp_kernel  torch apart context
utils.tensorboard.SummaryWriter torch apart context
utils.tensorboard.writer.SummaryWriter torch apart context
cuda.synchronize          torch apart waits whole-device
accelerator.synchronize   torch apart waits whole-device
mps.synchronize           torch apart waits whole-device
xpu.synchronize           torch apart waits whole-device
cuda.current_stream       torch apart stream
cuda.default_stream       torch apart stream
accelerator.current_stream torch apart stream
xpu.current_stream        torch apart stream
cuda.empty_cache          torch apart empties
accelerator.empty_cache   torch apart empties
accelerator.memory.empty_cache torch apart empties
mps.empty_cache           torch apart empties
xpu.empty_cache           torch apart empties
xpu.memory.empty_cache    torch apart empties
npu.empty_cache           torch apart empties
_local_scalar_dense       aten internal cost=element mixes
_unique                   aten internal cost=any-element
_unique2                  aten internal cost=any-element
unique_dim                aten internal cost=8 says=unique
unique_dim_consecutive    aten internal cost=8 says=unique
index                     aten internal cost=indices mixes
_unsafe_index             aten internal cost=indices mixes
index_put                 aten internal cost=indices-and-value mixes
_index_put_impl_          aten internal cost=indices-and-value mixes
_unsafe_index_put         aten internal cost=indices-and-value mixes
index_put_                aten internal cost=indices-and-value mixes
_linalg_check_errors      aten internal cost=errors
_to_copy                  aten internal mixes
_pack_padded_sequence     aten internal mixes
_pad_packed_sequence      aten internal mixes
_ctc_loss                 aten internal mixes
lift                      aten internal mixes
lift_fresh                aten internal mixes
_foreach_copy_            aten internal mixes
record_stream             aten internal mixes
_has_compatible_shallow_copy_type aten internal mixes
_reshape_alias            aten internal mixes
"""


NAMES: list[str] = []
"""The name of each row, by its number."""
WORDS: dict[str, set[int]] = {}
"""The numbers of the rows that have a word, or the kind of which implies it."""
_VALUES: dict[str, dict[str, str]] = {}
for _number, _line in enumerate(_ROWS.strip().split("\n")):
    _name, *_words = _line.split()
    NAMES.append(_name)
    for _word in _words:
        if "=" in _word:
            _word, _, _value = _word.partition("=")
            _VALUES.setdefault(_word, {})[_name] = _value
        WORDS.setdefault(_word, set()).add(_number)
for _kind, _implied in KINDS.items():
    for _word in _implied.split():
        WORDS.setdefault(_word, set()).update(WORDS[_kind])


def _rows(words: tuple[str, ...]) -> set[int]:
    first, *others = [WORDS[word] for word in words]
    return first.intersection(*others)


def having(*words: str) -> frozenset[str]:
    """Return the names of the operations of which all these words hold: forms, kinds and facts.

    Raises:
        KeyError: no row has such a word.
    """
    return frozenset(map(NAMES.__getitem__, _rows(words)))


def dotted(*words: str) -> frozenset[str]:
    """Return the dotted names of those operations, as `Module.name` gives them: ``torch.rand`` and
    the like."""
    rows = _rows(words)
    prefixes = [(prefix, rows & WORDS[form]) for form, prefix in FORMS.items() if prefix]
    return frozenset(prefix + NAMES[row] for prefix, found in prefixes for row in found)


def values(key: str, *words: str) -> dict[str, str]:
    """Return what stands behind ``key=`` in the rows of which all these words hold, by name."""
    names = having(key, *words)
    return {name: value for name, value in _VALUES[key].items() if name in names}


FACTORIES = dotted("factory")
DATA_FACTORIES = dotted("from-data")
LOSS_FUNCTIONS = dotted("loss")
NO_TENSOR = dotted("apart") | {
    "torch.Tensor",
    "torch.nn.attention.flex_attention.create_block_mask",
    "torch.nn.attention.flex_attention.create_nested_block_mask",
}
"""Functions that neither compute with tensors nor give one; ``torch.Tensor(x)`` makes one of what
is none."""
METHODS = having("method")
TENSOR_ONLY_METHODS = having("own") | having("hint")
REDUCTIONS = having("reduce")
BOOL_METHODS = having("gives-bool")
INT_METHODS = having("gives-int")
HOST_ATTRIBUTES = having("attribute", "fact")
HOST_METHODS = having("method", "fact")
ALIASING_ATTRIBUTES = having("attribute", "alias")
ALIASING_METHODS = having("method", "alias")
ALIASING_FUNCTIONS = dotted("alias") | {"numpy.asarray"}
COMPUTING_METHODS = having("method", "fresh")
COMPUTING_FUNCTIONS = dotted("fresh")
SAME_VALUES = having("same") | having("view", "method") - having("several") | having("copy")
"""Methods that give a tensor of the same values: itself, in another shape, without a graph, or
copied."""
