// SPDX-License-Identifier: Apache-2.0
#include "nvmf/host/options.h"

#include "nvmf/pdu/connect.h"

namespace larder::nvmf {
namespace {

NvmeDeviceOptions with_url(NvmeDeviceOptions options) {
  const NvmeUrl& url = options.url;
  if (url.queues) options.queues = *url.queues;
  if (url.io_timeout) options.io_timeout = *url.io_timeout;
  if (url.keep_alive) options.keep_alive = *url.keep_alive;
  if (!url.host_nqn.empty()) options.host.nqn = url.host_nqn;
  return options;
}

Result<void> check_options(const NvmeDeviceOptions& options) {
  if (options.url.nqn.empty() || options.url.nqn == kDiscoveryNqn) {
    return fail(Code::kInvalidArgument,
                "the URL " + options.url.to_string() +
                    " names no subsystem to use: nvme-tcp://HOST:PORT/NQN; larder nvme discover "
                    "shows which there are");
  }
  if (options.queues == 0 || options.queues > block::kQueuesMax || options.queue_entries < 2 ||
      options.queue_entries > 4096 || options.command_bytes_max < block::kBlockBytesMax) {
    return fail(Code::kInvalidArgument,
                "a remote device needs 1 to 1024 queues of 2 to 4096 entries, and commands of at "
                "least 64 KiB");
  }
  if (options.io_timeout <= 0 || options.connect_timeout <= 0 || options.keep_alive < 0 ||
      options.reattach_timeout < 0) {
    return fail(Code::kInvalidArgument, "the times of a remote device are above zero");
  }
  return {};
}

}  // namespace

Result<NvmeDeviceOptions> settled(const NvmeDeviceOptions& given) {
  NvmeDeviceOptions options = with_url(given);
  LARDER_TRY(check_options(options));
  return options;
}

}  // namespace larder::nvmf
