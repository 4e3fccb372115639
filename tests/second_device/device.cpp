// "second": a device without hardware, to find on any machine what would fail or wait on a GPU.
//
// A PrivateUse1 backend of torch with host memory and the CPU's kernels, but with the manners of CUDA: it refuses
// tensors of mixed devices and generators of another device, keeps random states of 16 bytes, runs autograd in a
// thread of its own, counts the bytes it has given out, and reports whatever would make the host wait for a GPU.
// It has no streams (all work is done when a call returns), no CUDA kernels and no determinism alerts.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/InferSize.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/as_strided_cpu_dispatch.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/extension.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

namespace {

constexpr auto SECOND = c10::DeviceType::PrivateUse1;
const c10::Device HERE(SECOND, 0);

bool is_here(const at::Tensor& tensor) { return tensor.defined() && tensor.device().type() == SECOND; }

// -- waits ------------------------------------------------------------------------------------------------

PyObject* listener = nullptr;      // called with a reason whenever a GPU would be waited for
std::atomic<long> kernels{0};
thread_local int inside = 0;       // kernels of the CPU that work for one of ours: what they copy is no transfer

struct Inside {
  Inside() { ++inside; }
  ~Inside() { --inside; }
};

void report_wait(const std::string& why) {
  if (inside > 0) return;
  pybind11::gil_scoped_acquire gil;
  if (listener != nullptr) pybind11::reinterpret_borrow<pybind11::function>(listener)(why);
}

// -- memory -----------------------------------------------------------------------------------------------

std::atomic<long> allocated{0}, peak{0};

struct Block {
  void* data;
  long size;
};

void give_back(void* context) {
  auto* block = static_cast<Block*>(context);
  allocated -= block->size;
  c10::free_cpu(block->data);
  delete block;
}

struct DeviceMemory final : c10::Allocator {
  c10::DataPtr allocate(size_t size) override {
    void* data = c10::alloc_cpu(size);
    const long now = allocated += static_cast<long>(size);
    for (long before = peak; before < now && !peak.compare_exchange_weak(before, now);) {
    }
    return {data, new Block{data, static_cast<long>(size)}, &give_back, HERE};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t count) const override { std::memcpy(to, from, count); }
};
DeviceMemory device_memory;

// Host memory that a GPU may read by itself: a copy from there need not be waited for.
std::mutex pinned_lock;
std::map<const char*, size_t> pinned_blocks;

void unpin(void* data) {
  {
    const std::lock_guard<std::mutex> guard(pinned_lock);
    pinned_blocks.erase(static_cast<const char*>(data));
  }
  c10::free_cpu(data);
}

struct PinnedMemory final : c10::Allocator {
  c10::DataPtr allocate(size_t size) override {
    void* data = c10::alloc_cpu(size);
    const std::lock_guard<std::mutex> guard(pinned_lock);
    pinned_blocks[static_cast<const char*>(data)] = size;
    return {data, data, &unpin, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &unpin; }
  void copy_data(void* to, const void* from, std::size_t count) const override { std::memcpy(to, from, count); }
};
PinnedMemory pinned_memory;

bool is_pinned(const void* data) {
  const auto* place = static_cast<const char*>(data);
  const std::lock_guard<std::mutex> guard(pinned_lock);
  auto after = pinned_blocks.upper_bound(place);
  if (after == pinned_blocks.begin()) return false;
  --after;
  return place < after->first + after->second;
}

// -- random numbers: a seed and an offset, 16 bytes as on CUDA ------------------------------------------------

struct SecondGenerator final : c10::GeneratorImpl {
  // Without an index, as torch.Generator("cuda") has none.
  SecondGenerator() : GeneratorImpl(c10::Device(SECOND), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

  void set_current_seed(uint64_t seed) override { seed_ = seed, offset_ = 0; }
  uint64_t current_seed() const override { return seed_; }
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return seed_;
  }
  void set_state(const c10::TensorImpl& state) override {
    TORCH_CHECK(state.device().is_cpu() && state.dtype() == at::kByte, "RNG state must be a torch.ByteTensor");
    TORCH_CHECK(state.numel() == 16, "RNG state is wrong size");
    std::memcpy(&seed_, state.data(), 8);
    std::memcpy(&offset_, static_cast<const char*>(state.data()) + 8, 8);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    auto state = at::detail::empty_cpu({16}, at::kByte);
    std::memcpy(state.data_ptr(), &seed_, 8);
    std::memcpy(static_cast<char*>(state.data_ptr()) + 8, &offset_, 8);
    return state.getIntrusivePtr();
  }
  SecondGenerator* clone_impl() const override {
    auto* copy = new SecondGenerator();
    copy->seed_ = seed_, copy->offset_ = offset_;
    return copy;
  }

  // A generator of the CPU for one kernel: splitmix64 of the seed and of how many kernels there were.
  at::Generator next() {
    uint64_t z = seed_ + 0x9e3779b97f4a7c15ULL * ++offset_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return at::detail::createCPUGenerator(z ^ (z >> 31));
  }

 private:
  uint64_t seed_ = c10::default_rng_seed_val, offset_ = 0;
};

at::Generator default_generator = at::make_generator<SecondGenerator>();

// -- what torch asks a backend for ---------------------------------------------------------------------------

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override { return default_generator; }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return at::make_generator<SecondGenerator>(); }
  at::Device getDeviceFromPtr(void*) const override { return HERE; }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_memory; }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t size) const override {
    auto fresh = device_memory.allocate(size);
    std::memcpy(fresh.get(), storage.data(), std::min(size, storage.nbytes()));
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(fresh));
    storage.unsafeGetStorageImpl()->set_nbytes(size);
  }
};
Hooks hooks;

struct Guard final : c10::impl::DeviceGuardImplInterface {
  static c10::Stream only() { return c10::Stream(c10::Stream::DEFAULT, HERE); }
  c10::DeviceType type() const override { return SECOND; }
  c10::Device exchangeDevice(c10::Device) const override { return HERE; }
  c10::Device getDevice() const override { return HERE; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return only(); }
  c10::Stream getDefaultStream(c10::Device) const override { return only(); }
  c10::Stream getNewStream(c10::Device, int) const override { return only(); }
  c10::Stream exchangeStream(c10::Stream) const override { return only(); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override { report_wait("stream.synchronize"); }
  void synchronizeEvent(void*) const override { report_wait("event.synchronize"); }
  void synchronizeDevice(const c10::DeviceIndex) const override { report_wait("synchronize"); }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

// -- tensors: making them, looking at them, copying them -------------------------------------------------------

using Shape = at::IntArrayRef;
const c10::DispatchKeySet KEYS(c10::DispatchKey::PrivateUse1);

at::Tensor empty(Shape size, std::optional<at::ScalarType> type, std::optional<at::Layout>, std::optional<at::Device>,
                 std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &device_memory, KEYS, c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(Shape size, Shape stride, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &device_memory, KEYS, c10::dtype_or_default(type));
}

at::Tensor as_strided(const at::Tensor& self, Shape size, Shape stride, std::optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, size, stride, offset);
}

at::Tensor reshape_alias(const at::Tensor& self, Shape size, Shape stride) {
  auto storage = c10::Storage(self.storage());
  auto made = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, std::move(storage), self.key_set(),
                                                       self.dtype());
  made.unsafeGetTensorImpl()->set_storage_offset(self.storage_offset());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride);
  return made;
}

at::Tensor view(const at::Tensor& self, Shape size) {
  const auto inferred = at::infer_size_dv(size, self.numel());
  const auto stride = at::detail::computeStride(self.sizes(), self.strides(), inferred);
  TORCH_CHECK(stride.has_value(), "view size is not compatible with input tensor's size and stride (at least one "
              "dimension spans across two contiguous subspaces). Use .reshape(...) instead.");
  return reshape_alias(self, inferred, *stride);
}

// The same memory under the CPU's name.
at::Tensor as_host(const at::Tensor& tensor) {
  if (!is_here(tensor)) return tensor;
  auto storage = tensor.storage();
  return at::for_blob(tensor.data_ptr(), tensor.sizes())
      .strides(tensor.strides())
      .deleter([storage](void*) {})
      .options(at::TensorOptions().dtype(tensor.dtype()).device(at::kCPU))
      .make_tensor();
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  ++kernels;
  if (is_here(from) != is_here(to)) {
    const auto& host = is_here(from) ? to : from;
    if (!non_blocking || !is_pinned(host.data_ptr()))
      report_wait(is_here(from) ? "copy from the device" : "copy to the device from pageable memory or blocking");
  }
  as_host(to).copy_(as_host(from));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (to.sizes() != from.sizes()) to.resize_(from.sizes());
  as_host(to).copy_(as_host(from));
  return to;
}

const at::Tensor& resize_(const at::Tensor& self, Shape size, std::optional<at::MemoryFormat>) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(size);
  const size_t needed = static_cast<size_t>(impl->numel() + self.storage_offset()) * self.element_size();
  if (needed > self.storage().nbytes()) hooks.resizePrivateUse1Bytes(self.storage(), needed);
  return self;
}

at::Tensor& set_source(at::Tensor& self, at::Storage source, int64_t offset, Shape size, Shape stride) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  impl->set_storage_offset(offset);
  const bool dense = stride.empty() && !size.empty();
  impl->set_sizes_and_strides(size, dense ? c10::TensorType::contiguousStridesOf(size) : stride.vec());
  return self;
}

at::Scalar local_scalar(const at::Tensor& self) {
  report_wait("item, float, int or bool");
  return at::_local_scalar_dense(as_host(self));
}

// -- kernels ----------------------------------------------------------------------------------------------------

[[noreturn]] void refuse(const std::string& name, const at::Tensor& tensor) {
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, second:0 and ",
              tensor.device(), "! (", name, ")");
  std::abort();
}

// A convolution asks other backends under names of its own, past the fallback.
at::Tensor moved_here(const at::Tensor& made) {
  if (!made.defined()) return made;
  auto here = at::empty_strided(made.sizes(), made.strides(), made.options().device(HERE));
  as_host(here).copy_(made);
  return here;
}

at::Tensor convolution(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       Shape stride, Shape padding, Shape dilation, bool transposed, Shape extra, int64_t groups) {
  ++kernels;
  const auto shift = bias.value_or(at::Tensor());
  for (const auto& each : {x, weight, shift})
    if (each.defined() && !is_here(each)) refuse("convolution", each);
  const auto host_bias = shift.defined() ? std::optional(as_host(shift)) : std::nullopt;
  return moved_here(at::convolution(as_host(x), as_host(weight), host_bias, stride, padding, dilation, transposed,
                                    extra, groups));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& weight, Shape stride, Shape padding,
    Shape dilation, bool transposed, Shape extra, int64_t groups, std::array<bool, 3> wanted) {
  ++kernels;
  for (const auto& each : {gradient, x, weight})
    if (!is_here(each)) refuse("convolution_backward", each);
  const int64_t outputs = transposed ? weight.size(1) * groups : weight.size(0);
  auto [of_x, of_weight, of_bias] =
      at::convolution_backward(as_host(gradient), as_host(x), as_host(weight), Shape({outputs}), stride, padding,
                               dilation, transposed, extra, groups, wanted);
  return {moved_here(of_x), moved_here(of_weight), moved_here(of_bias)};
}

// What CUDA cannot give before it knows how large it is, or gives to the host.
const std::set<std::string> WAITING = {"aten::nonzero",           "aten::masked_select", "aten::_unique2",
                                       "aten::unique_consecutive", "aten::unique_dim",    "aten::_unique",
                                       "aten::equal",             "aten::bincount"};
// Where indices may be on the host; torch itself moves those of aten::index, and looks through its masks.
const std::set<std::string> INDEXED = {"aten::index", "aten::index_put_", "aten::index_put",
                                       "aten::_index_put_impl_"};
// These take no number of the host's either.
const std::set<std::string> STRICT = {"aten::cat", "aten::stack", "aten::mm", "aten::addmm", "aten::bmm"};

struct Inspection {
  const std::string& name;
  bool indexed, strict;
  int masks = 0, host_indices = 0;

  void argument(const at::Tensor& tensor) const {
    if (!tensor.defined() || is_here(tensor)) return;
    if (tensor.dim() == 0 && tensor.device().is_cpu() && !strict) return;
    refuse(name, tensor);
  }
  void index(const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    if (tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte) ++masks;
    if (!is_here(tensor)) ++host_indices;
  }
  void list(const at::Tensor& tensor) {
    if (indexed) index(tensor);
    else argument(tensor);
  }
};

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  ++kernels;
  const auto& schema = op.schema();
  const auto& name = schema.name();
  const auto count = schema.arguments().size();
  const auto first = stack->size() - count;
  Inspection seen{name, INDEXED.count(name) > 0, STRICT.count(name) > 0};
  for (size_t i = 0; i < count; i++) {
    const auto value = (*stack)[first + i];
    if (value.isTensor()) {
      seen.argument(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& each : value.toTensorList()) seen.list(each);
    } else if (value.isList()) {
      for (const c10::IValue& each : value.toList())
        if (each.isTensor()) seen.list(each.toTensor());
    } else if (value.isGenerator()) {
      const auto generator = value.toGenerator();
      TORCH_CHECK(generator.device().type() == SECOND, "Expected a 'second' device type for generator but found '",
                  generator.device(), "' (", name, ")");
      (*stack)[first + i] = c10::IValue(generator.get<SecondGenerator>()->next());
    } else if (value.isNone() && schema.arguments()[i].type()->str() == "Generator?") {
      (*stack)[first + i] = c10::IValue(default_generator.get<SecondGenerator>()->next());
    }
  }
  if (seen.indexed && name != "aten::index") {
    // x[mask] = number is a masked_fill on CUDA, which knows its size.
    const bool fills = seen.masks == 1 && (*stack)[first + 2].toTensor().numel() == 1;
    if (seen.masks > 0 && !fills) report_wait(name + " by a mask");
    if (seen.host_indices > 0) report_wait(name + " by indices of the host");
  }
  // Repeats are counted on the device unless the size of the result is given.
  const bool counts = name == "aten::repeat_interleave" && (*stack)[first + count - 1].isNone();
  if (WAITING.count(name) > 0 || counts) report_wait(name);
  const Inside guard;
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("as_strided", &as_strided);
  m.impl("view", &view);
  m.impl("_reshape_alias", &reshape_alias);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("resize_", &resize_);
  m.impl("set_.source_Storage_storage_offset", &set_source);
  m.impl("_local_scalar_dense", &local_scalar);
  m.impl("convolution_overrideable", &convolution);
  m.impl("convolution_backward_overrideable", &convolution_backward);
  // Composed of other operators unless a backend has its own.
  m.impl("native_group_norm", torch::CppFunction::makeFromBoxedFunction<&fallback>());
  m.impl("native_layer_norm", torch::CppFunction::makeFromBoxedFunction<&fallback>());
  // Its kernel takes the result as scratch space, and complains where that is somebody's.
  m.impl("mse_loss", torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("start", [] {
    at::RegisterPrivateUse1HooksInterface(&hooks);
    c10::SetAllocator(SECOND, &device_memory);
  });
  m.def("listen", [](const pybind11::object& function) {
    Py_XDECREF(listener);
    listener = function.is_none() ? nullptr : pybind11::object(function).release().ptr();
  });
  m.def("report_wait", &report_wait);
  m.def("kernels", [] { return kernels.load(); });
  m.def("allocated", [] { return allocated.load(); });
  m.def("peak", [] { return peak.load(); });
  m.def("reset_peak", [] { peak = allocated.load(); });
  m.def("manual_seed", [](uint64_t seed) { default_generator.set_current_seed(seed); });
  m.def("get_state", [] { return at::Tensor(default_generator.get<SecondGenerator>()->get_state()); });
  m.def("set_state", [](const at::Tensor& state) {
    default_generator.get<SecondGenerator>()->set_state(*state.unsafeGetTensorImpl());
  });
}
