// What calls on a GPU's streams keep between them: never shared by two streams, or by a graph and what comes after it;
// and results, which come and go in the order of a stream.
#include <cstring>
#include <vector>

#include "check.hpp"
// Against tests/cpp/fake_cuda/cuda_runtime.h:
#include "memory.cu"
#include "workspace.cu"

namespace kvopt {

namespace {

using cuda::DeviceBuffer;
using cuda::Workspace;
using cuda::Workspaces;

scoring::PreparedParams params_of(float lifespan) {
  const std::vector<float> values = {lifespan, 0.5F, 40};
  ScoreParams params;
  params.score = Score::kAsymCache;
  params.width = 3;
  params.values = values.data();
  return scoring::prepare(params, 0);
}

bool is_allocated(const void* memory) { return fake.allocated.contains(const_cast<void*>(memory)); }

void a_graph_keeps_the_memory_of_its_capture() {
  FakeStream stream{10};
  DeviceBuffer buffer;
  buffer.reserve(100, &stream);
  const void* first = buffer.as<void>();
  buffer.reserve(50, &stream);
  CHECK_EQUAL(buffer.as<void>(), first);
  stream.capture = 1;
  buffer.reserve(100, &stream);
  buffer.reserve(80, &stream);  // a second call of the same capture comes after the first, in the graph too
  CHECK_EQUAL(buffer.as<void>(), first);
  stream.capture = 2;  // another graph, which may run beside that one
  CHECK_THROWS(CudaError, buffer.reserve(10, &stream));
  stream.capture = 0;
  buffer.reserve(100, &stream);
  const void* second = buffer.as<void>();
  CHECK(second != first);
  CHECK(is_allocated(first));
  buffer.reserve(1000, &stream);
  CHECK(!is_allocated(second));
  CHECK(is_allocated(first));
}

void a_capture_allocates_nothing() {
  FakeStream stream{11};
  DeviceBuffer buffer;
  buffer.reserve(100, &stream);
  const std::size_t before = fake.allocated.size();
  stream.capture = 3;
  CHECK_THROWS(CudaError, buffer.reserve(101, &stream));
  Workspaces workspaces;
  CHECK_THROWS(CudaError, workspaces.of(&stream).params(params_of(7), &stream));
  CHECK_EQUAL(fake.allocated.size(), before);
}

void parameters_leave_in_the_order_of_the_stream() {
  FakeStream stream{12};
  Workspaces workspaces;
  Workspace& workspace = workspaces.of(&stream);
  const std::size_t before = fake.allocated.size();
  fake.frees_unordered = 0;
  workspace.params(params_of(1), &stream);
  stream.capture = 4;
  const double* captured = workspace.params(params_of(1), &stream).view(0).doubles;
  stream.capture = 0;
  for (int i = 2; i < 40; ++i) {
    const scoring::PreparedParams wanted = params_of(static_cast<float>(i));
    const scoring::PreparedScore view = workspace.params(params_of(static_cast<float>(i)), &stream).view(5);
    CHECK_EQUAL(view.now, 5.0);
    CHECK(std::memcmp(view.doubles, wanted.doubles.data(), wanted.doubles.size() * sizeof(double)) == 0);
  }
  CHECK_EQUAL(fake.frees_unordered, 0);
  CHECK_EQUAL(fake.allocated.size(), before + 9);  // the latest eight, and the graph's
  CHECK(is_allocated(captured));
  CHECK_EQUAL(workspace.params(params_of(1), &stream).view(0).doubles, captured);
}

void each_stream_has_a_workspace_of_its_own() {
  Workspaces workspaces;
  FakeStream a{20};
  FakeStream b{21};
  Workspace* legacy = &workspaces.of(nullptr);
  CHECK(&workspaces.of(cudaStreamLegacy) == legacy);
  CHECK(&workspaces.of(&a) != &workspaces.of(&b));
  CHECK(&workspaces.of(&a) != legacy);
  Workspace* of_thread = &workspaces.of(cudaStreamPerThread);
  CHECK(of_thread != legacy);
  fake.thread.id = 101;  // as another thread sees it
  CHECK(&workspaces.of(cudaStreamPerThread) != of_thread);
  fake.thread.id = 100;
  CHECK(&workspaces.of(cudaStreamPerThread) == of_thread);
}

void a_handle_that_comes_back_waits_for_the_former_stream() {
  Workspaces workspaces;
  FakeStream stream{30};
  Workspace* workspace = &workspaces.of(&stream);
  fake.waits = 0;
  CHECK(&workspaces.of(&stream) == workspace);
  CHECK_EQUAL(fake.waits, 0);
  stream.id = 31;
  stream.capture = 5;
  CHECK_THROWS(CudaError, workspaces.of(&stream));  // a capture cannot wait
  stream.capture = 0;
  CHECK(&workspaces.of(&stream) == workspace);
  CHECK(&workspaces.of(&stream) == workspace);
  CHECK_EQUAL(fake.waits, 1);
}

void results_are_freed_when_no_capture_forbids_it() {
  FakeStream stream{40};
  const auto address = reinterpret_cast<cuda::Stream>(&stream);
  const std::size_t before = fake.allocated.size();
  {
    const cuda::Memory result(0, 64, address);
    stream.capture = 6;
    CHECK_THROWS(CudaError, cuda::Memory(0, 64, address));
  }
  CHECK_EQUAL(fake.allocated.size(), before + 1);
  CHECK_EQUAL(fake.spoiled_captures, 0);
  stream.capture = 0;
  {
    const cuda::Memory other(0, 64, address);
  }
  CHECK_EQUAL(fake.allocated.size(), before);
  {
    const cuda::Memory of_a_thread(0, 64, reinterpret_cast<cuda::Stream>(cudaStreamPerThread));
  }
  CHECK(fake.last_free == cudaStreamLegacy);  // by whatever thread it is freed
}

void nothing_is_left() { CHECK(fake.allocated.empty()); }

}  // namespace

}  // namespace kvopt

int main() {
  using namespace kvopt;
  return test::run_all(
      {{"a graph keeps the memory of its capture", a_graph_keeps_the_memory_of_its_capture},
       {"a capture allocates nothing", a_capture_allocates_nothing},
       {"parameters leave in the order of the stream", parameters_leave_in_the_order_of_the_stream},
       {"each stream has a workspace of its own", each_stream_has_a_workspace_of_its_own},
       {"a handle that comes back waits for the former stream", a_handle_that_comes_back_waits_for_the_former_stream},
       {"results are freed when no capture forbids it", results_are_freed_when_no_capture_forbids_it},
       {"nothing is left", nothing_is_left}});
}
