#include "capi/status.hpp"

#include <exception>
#include <new>

#include "kvopt/error.hpp"
#include "kvopt/version.hpp"

namespace kvopt::capi {

namespace {

struct LastError {
  std::string text;
  const char* shown = "";
};

LastError& of_this_thread() {
  thread_local LastError last;
  return last;
}

kvopt_status note(kvopt_status status, const char* message) noexcept {
  LastError& last = of_this_thread();
  try {
    last.text = message;
    last.shown = last.text.c_str();
  } catch (const std::bad_alloc&) {
    last.shown = "out of memory";
  }
  return status;
}

}  // namespace

const char* last_error() noexcept { return of_this_thread().shown; }

kvopt_status answer_of_exception() noexcept {
  try {
    throw;
  } catch (const Refusal& e) {
    return note(e.status, e.what());
  } catch (const UnknownPolicyError& e) {
    return note(KVOPT_UNKNOWN_POLICY, e.what());
  } catch (const PolicyLibraryError& e) {
    return note(KVOPT_POLICY_LIBRARY, e.what());
  } catch (const PolicyStateError& e) {
    return note(KVOPT_POLICY_STATE, e.what());
  } catch (const ConfigError& e) {
    return note(KVOPT_CONFIG_ERROR, e.what());
  } catch (const NotEnoughBlocksError& e) {
    return note(KVOPT_NOT_ENOUGH, e.what());
  } catch (const StaleBlockError& e) {
    return note(KVOPT_STALE_BLOCK, e.what());
  } catch (const ReferenceCountError& e) {
    return note(KVOPT_REFERENCE_COUNT, e.what());
  } catch (const LeaseError& e) {
    return note(KVOPT_LEASE_ERROR, e.what());
  } catch (const PoolError& e) {
    return note(KVOPT_POOL_ERROR, e.what());
  } catch (const PolicyError& e) {
    return note(KVOPT_POLICY_ERROR, e.what());
  } catch (const std::bad_alloc&) {
    return note(KVOPT_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& e) {
    return note(KVOPT_INTERNAL_ERROR, e.what());
  } catch (...) {
    return note(KVOPT_INTERNAL_ERROR, "an exception of unknown type");
  }
}

}  // namespace kvopt::capi

using namespace kvopt::capi;

const char* kvopt_last_error(void) { return last_error(); }
const char* kvopt_version(void) { return KVOPT_VERSION; }

kvopt_status kvopt_check_version(uint32_t api_version) {
  return answer([&] {
    if (api_version == KVOPT_API_VERSION) return;
    throw Refusal(KVOPT_VERSION_MISMATCH, "compiled for version " + std::to_string(api_version) +
                                              " of the C interface, but this KVopt " KVOPT_VERSION " has version " +
                                              std::to_string(KVOPT_API_VERSION));
  });
}
