#include <pybind11/stl.h>

#include <array>
#include <optional>
#include <string>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "bindings/key_argument.hpp"
#include "bindings/python_policy.hpp"
#include "bindings/python_pool.hpp"
#include "bindings/rule.hpp"
#include "kvopt/block_pool.hpp"
#include "kvopt/error.hpp"
#include "simulator/request.hpp"

namespace kvopt::bindings {

namespace {

// What RequestInfo an argument means: seconds, or a whole record.
RequestInfo to_info(const py::object& now) {
  if (py::isinstance<RequestInfo>(now)) return py::cast<RequestInfo>(now);
  try {
    return RequestInfo{.now = py::cast<double>(now)};
  } catch (const py::cast_error&) {
    throw ConfigError("now is " + py::cast<std::string>(py::repr(now)) + "; it must be seconds or a RequestInfo");
  }
}

py::dict to_dict(const PoolCounts& c) {
  py::dict d;
  d["capacity"] = c.capacity;
  d["empty"] = c.empty;
  d["evictable"] = c.evictable;
  d["referenced"] = c.referenced;
  d["leased"] = c.leased;
  return d;
}

py::dict to_dict(const PoolStats& s) {
  py::dict d = to_dict(s.counts);
  d["requests"] = s.requests;
  d["hit_blocks"] = s.hit_blocks;
  d["new_blocks"] = s.new_blocks;
  d["stored_blocks"] = s.stored_blocks;
  constexpr std::array<const char*, kDropReasons> kReasons = {"capacity", "explicit", "cleared", "forgotten"};
  py::dict dropped;
  for (std::size_t i = 0; i < kDropReasons; ++i) dropped[kReasons[i]] = s.dropped[i];
  d["dropped_blocks"] = dropped;
  d["leases_expired"] = s.leases_expired;
  d["leases_reclaimed"] = s.leases_reclaimed;
  d["retentions_expired"] = s.retentions_expired;
  d["runs"] = s.runs;
  d["bytes"] = s.bytes;
  return d;
}

std::uint32_t to_count(std::int64_t value, const char* name) {
  if (value < 0 || value >= kNoBlock) {
    throw ConfigError(std::string(name) + " is " + std::to_string(value) + "; it must be 0 to " +
                      std::to_string(kNoBlock - 1));
  }
  return static_cast<std::uint32_t>(value);
}

std::size_t to_size(std::int64_t value, const char* name) {
  if (value < 0) throw PoolError(std::string(name) + " is " + std::to_string(value) + "; it must not be negative");
  return static_cast<std::size_t>(value);
}

Lifetime to_lifetime(const std::string& lifetime) {
  if (lifetime == "fixed") return Lifetime::kFixed;
  if (lifetime == "refresh") return Lifetime::kRefresh;
  throw ConfigError("lifetime is '" + lifetime + "'; it must be 'fixed' or 'refresh'");
}

LeaseId lease(PythonPool& p, const Allocation& allocation, std::int64_t n, double deadline, double now) {
  const std::size_t blocks = to_size(n, "n");
  return p.call([&](BlockPool& pool) { return pool.lease(allocation, blocks, deadline, now); });
}

void retain(PythonPool& p, const Allocation& allocation, std::int64_t first, std::int64_t n, std::int64_t priority,
            double duration, const std::string& lifetime, double now) {
  if (priority < 0 || priority > kMaxPriority) {
    throw ConfigError("priority " + std::to_string(priority) + "; it must be 0 to 100");
  }
  const std::size_t start = to_size(first, "first");
  const std::size_t blocks = to_size(n, "n");
  const Lifetime kind = to_lifetime(lifetime);
  p.call([&](BlockPool& pool) {
    pool.retain(allocation, start, blocks, static_cast<std::uint8_t>(priority), duration, kind, now);
  });
}

std::unique_ptr<PythonPool> make_pool(std::int64_t capacity, const py::object& policy, const std::string& rule,
                                      std::int64_t key_bytes, std::int64_t lease_budget, bool retention,
                                      std::int64_t block_tokens, double p_star) {
  const PoolOptions options{.capacity = to_count(capacity, "capacity"),
                            .rule = to_rule(rule),
                            .key_bytes = to_count(key_bytes, "key_bytes"),
                            .lease_budget = to_count(lease_budget, "lease_budget"),
                            .retention = retention,
                            .block_tokens = to_count(block_tokens, "block_tokens"),
                            .p_star = p_star};
  check(options);  // before the policy object counts as attached
  return std::make_unique<PythonPool>(options, to_policy(policy));
}

}  // namespace

void bind_block_pool(py::module_& m) {
  py::class_<PythonAllocation>(
      m, "Allocation",
      "The blocks that one request holds, root first; made by BlockPool.acquire. Release it: a policy learns from the "
      "time of it and from what is known of the request. One that is dropped unreleased is released at the latest time "
      "that its pool was told, with nothing known.")
      .def_property_readonly(
          "blocks",
          [](const PythonAllocation& a) {
            std::vector<BlockId> blocks(a.allocation.size());
            if (a.allocation.live()) a.pool->pool().blocks_of(a.allocation, blocks);
            return to_array(std::move(blocks));
          },
          "uint32: block ids, first to last (a copy); empty once it is released.")
      .def("__len__", [](const PythonAllocation& a) { return a.allocation.size(); })
      .def_property_readonly(
          "hit", [](const PythonAllocation& a) { return a.allocation.hit(); }, "Leading blocks that were found cached.")
      .def_property_readonly(
          "committed", [](const PythonAllocation& a) { return a.allocation.committed(); },
          "Leading blocks that carry a key.")
      .def_property_readonly(
          "live", [](const PythonAllocation& a) { return a.allocation.live(); }, "False once it is released.");

  py::class_<PythonPool>(
      m, "BlockPool",
      "The blocks of one KV cache. A request's life: match, acquire, commit, extend, release. Each call "
      "either succeeds whole or raises one of kvopt.errors with nothing changed. `now` is seconds on "
      "the caller's monotonic clock, or a RequestInfo that holds it. Not for use by several threads at once.")
      .def(py::init(&make_pool), py::arg("capacity"), py::arg("policy") = "lru", py::kw_only(),
           py::arg("rule") = "prefix", py::arg("key_bytes") = 0, py::arg("lease_budget") = 0,
           py::arg("retention") = false, py::arg("block_tokens") = 16, py::arg("p_star") = 28600.0,
           "capacity: blocks. policy: a spec such as 'lru', or a new kvopt.policies.Policy. rule: 'prefix' (a block "
           "with a "
           "cached child is never evicted) or 'flat' (blocks are independent). key_bytes: 0 for uint64 keys, else the "
           "length of byte-string keys, up to 64. lease_budget: blocks that leases may pin at once. retention: allow "
           "retain(). block_tokens, p_star (tokens): what policies with a cost model compute with. Raises ConfigError "
           "or UnknownPolicyError.")
      .def(
          "match",
          [](const PythonPool& p, const py::object& keys) {
            const KeyArgument argument(keys, p.pool().options().key_bytes);
            return p.pool().match(argument.view());
          },
          py::arg("keys"), "How many leading keys are cached. No side effect.")
      .def(
          "acquire",
          [](PythonPool& p, const py::object& keys, std::optional<std::int64_t> total, const py::object& now,
             std::optional<std::int64_t> max_hit, bool reclaim_leases) {
            const KeyArgument argument(keys, p.pool().options().key_bytes);
            const Keys view = argument.view();
            const std::size_t blocks = total ? to_size(*total, "total") : view.count;
            const std::size_t most = max_hit ? to_size(*max_hit, "max_hit") : SIZE_MAX;
            const RequestInfo info = to_info(now);
            return p.call([&](BlockPool& pool) {
              auto made = std::make_unique<PythonAllocation>(p);
              pool.acquire(made->allocation, view, blocks, info, most, reclaim_leases);
              return made;
            });
          },
          py::arg("keys"), py::arg("total") = py::none(), py::kw_only(), py::arg("now"),
          py::arg("max_hit") = py::none(), py::arg("reclaim_leases") = false, py::keep_alive<0, 1>(),
          "Reference the longest cached prefix of `keys` (at most max_hit blocks) and total - hit empty blocks, "
          "evicting as "
          "needed; total defaults to the number of keys. reclaim_leases: end leases, latest deadline first, rather "
          "than "
          "fail. Raises NotEnoughBlocksError, PolicyError, ReferenceCountError (65,535 holders of the prefix are the "
          "most), "
          "or PoolError when time goes back.")
      .def(
          "extend",
          [](PythonPool& p, PythonAllocation& a, std::int64_t n, const py::object& now, bool reclaim_leases) {
            const std::size_t blocks = to_size(n, "n");
            const RequestInfo info = to_info(now);
            p.call([&](BlockPool& pool) { pool.extend(a.allocation, blocks, info, reclaim_leases); });
          },
          py::arg("allocation"), py::arg("n") = 1, py::kw_only(), py::arg("now"), py::arg("reclaim_leases") = false,
          "Add n empty blocks at the end. Raises NotEnoughBlocksError, StaleBlockError.")
      .def(
          "commit",
          [](PythonPool& p, PythonAllocation& a, const py::object& keys, const py::object& now) {
            const KeyArgument argument(keys, p.pool().options().key_bytes);
            const RequestInfo info = to_info(now);
            p.call([&](BlockPool& pool) { pool.commit(a.allocation, argument.view(), info); });
          },
          py::arg("allocation"), py::arg("keys"), py::kw_only(), py::arg("now"),
          "Give keys to the next blocks of the allocation, which have become full. Raises PoolError, StaleBlockError.")
      .def(
          "release",
          [](PythonPool& p, PythonAllocation& a, const py::object& now) {
            const RequestInfo info = to_info(now);
            p.call([&](BlockPool& pool) { pool.release(a.allocation, info); });
          },
          py::arg("allocation"), py::kw_only(), py::arg("now"),
          "Let go of all blocks; those without a key are empty at once. Raises StaleBlockError on a second release.")
      .def(
          "lease",
          [](PythonPool& p, const PythonAllocation& a, std::int64_t n, double deadline, double now) {
            return lease(p, a.allocation, n, deadline, now);
          },
          py::arg("allocation"), py::arg("n"), py::kw_only(), py::arg("deadline"), py::arg("now"),
          "Pin the first n committed blocks until the deadline. Returns the lease's id. Raises LeaseError beyond the "
          "budget.")
      .def(
          "lease",
          [](PythonPool& p, const simulator::Request& r, std::int64_t n, double deadline, double now) {
            return lease(p, r.allocation, n, deadline, now);
          },
          py::arg("allocation"), py::arg("n"), py::kw_only(), py::arg("deadline"), py::arg("now"),
          "The same of what a request of a simulation holds.")
      .def(
          "end_lease",
          [](PythonPool& p, LeaseId lease, double now) {
            p.call([&](BlockPool& pool) { pool.end_lease(lease, now); });
          },
          py::arg("lease"), py::kw_only(), py::arg("now"),
          "End a lease early. Raises LeaseError when it is unknown or over.")
      .def(
          "retain",
          [](PythonPool& p, const PythonAllocation& a, std::int64_t first, std::int64_t n, std::int64_t priority,
             double duration, const std::string& lifetime,
             double now) { retain(p, a.allocation, first, n, priority, duration, lifetime, now); },
          py::arg("allocation"), py::arg("first"), py::arg("n"), py::kw_only(), py::arg("priority"),
          py::arg("duration") = kNever, py::arg("lifetime") = "fixed", py::arg("now"),
          "Set the retention priority (0 to 100, default 35) of n committed blocks for `duration` seconds, after which "
          "it is the default again. lifetime: 'fixed', or 'refresh' (a hit renews it). Raises ConfigError, "
          "StaleBlockError.")
      .def(
          "retain",
          [](PythonPool& p, const simulator::Request& r, std::int64_t first, std::int64_t n, std::int64_t priority,
             double duration, const std::string& lifetime,
             double now) { retain(p, r.allocation, first, n, priority, duration, lifetime, now); },
          py::arg("allocation"), py::arg("first"), py::arg("n"), py::kw_only(), py::arg("priority"),
          py::arg("duration") = kNever, py::arg("lifetime") = "fixed", py::arg("now"),
          "The same of what a request of a simulation holds.")
      .def_property_readonly(
          "honours_priority", [](const PythonPool& p) { return p.pool().honours_priority(); },
          "Whether retain() has an effect: the pool was built for it, and the policy looks at priorities.")
      .def(
          "expire", [](PythonPool& p, double now) { return p.call([&](BlockPool& pool) { return pool.expire(now); }); },
          py::arg("now"),
          "End leases and retentions that are due; returns how many. Acquire, extend, evict and lease do it first.")
      .def(
          "evict",
          [](PythonPool& p, std::int64_t n, double now) {
            const std::size_t blocks = to_size(n, "n");
            return to_array(p.call([&](BlockPool& pool) { return pool.evict(blocks, now); }));
          },
          py::arg("n"), py::kw_only(), py::arg("now"),
          "Evict exactly n blocks (uint32, in order). Raises NotEnoughBlocksError with nothing changed.")
      .def(
          "forget",
          [](PythonPool& p, const Array<BlockId>& blocks) {
            p.call([&](BlockPool& pool) { pool.forget(as_span(blocks)); });
          },
          py::arg("blocks"),
          "Take the content of cached blocks away, with everything behind them under the prefix rule. Blocks that are "
          "referenced stay with their holders, without a key. Raises StaleBlockError.")
      .def(
          "clear", [](PythonPool& p) { p.call([](BlockPool& pool) { pool.clear(); }); },
          "Drop all cached content and leases. Raises PoolError while requests hold blocks.")
      .def(
          "counts", [](const PythonPool& p) { return to_dict(p.pool().counts()); },
          "capacity, empty, evictable, referenced and leased blocks; the last four add up to the first.")
      .def(
          "stats", [](const PythonPool& p) { return to_dict(p.pool().stats()); },
          "counts() and totals since construction: requests, hit, new and stored blocks, dropped blocks by reason, "
          "leases and retentions ended, runs, and the bytes held if every block were a run of its own.")
      .def(
          "explain", [](const PythonPool& p, double now) { return p.pool().explain(now); }, py::kw_only(),
          py::arg("now"),
          "list[BlockValue]: what the policy thinks of each run that nobody holds, in the order in which they would "
          "go: "
          "possible victims first, then runs with something cached behind them. Raises ConfigError where the policy "
          "explains nothing, PoolError when time goes back.")
      .def(
          "explain_block",
          [](const PythonPool& p, std::int64_t block, double now) {
            return p.pool().explain(to_count(block, "block"), now);
          },
          py::arg("block"), py::kw_only(), py::arg("now"),
          "The same of the run that this block is in. Raises StaleBlockError when it holds no cached content, "
          "PoolError "
          "when a request or a lease holds it.")
      .def_property_readonly(
          "learns", [](const PythonPool& p) { return p.pool().policy().learns(); },
          "Whether what the policy learns can be saved and loaded.")
      .def(
          "save_state", [](const PythonPool& p) { return py::bytes(p.pool().policy().save_state()); },
          "bytes: what the policy has learned, for load_state() in this process or a later one. Raises "
          "PolicyStateError where it learns nothing.")
      .def(
          "load_state",
          [](PythonPool& p, const py::bytes& state) {
            p.call([&](BlockPool& pool) { pool.policy().load_state(std::string_view(state)); });
          },
          py::arg("state"),
          "Go on from what the policy has learned elsewhere; before the first request. Raises PolicyStateError, with "
          "nothing changed, where it learns nothing, has learned already, or these bytes are foreign, truncated, "
          "damaged, of another version, policy or settings.")
      .def(
          "verify", [](const PythonPool& p) { return p.pool().verify(); },
          "Check every invariant in full. Returns one sentence a violation; empty when all hold.")
      .def_property_readonly(
          "runs",
          [](const PythonPool& p) { return std::const_pointer_cast<RunTable>(p.pool().runs().shared_from_this()); },
          "The state of what is cached (RunTable): read-only views, always current.")
      .def_property_readonly("capacity", [](const PythonPool& p) { return p.pool().options().capacity; });
}

}  // namespace kvopt::bindings
