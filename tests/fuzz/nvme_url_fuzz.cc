// SPDX-License-Identifier: Apache-2.0
// Any text as the URL of a namespace: what is taken writes itself so that it is taken again.
#include "nvmf/host/url.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const std::string& candidate : {text, "nvme-tcp://" + text}) {
    const auto url = larder::nvmf::parse_nvme_url(candidate);
    if (!url) {
      larder::fuzz::require(url.error().message().size() < 4096, "errors are bounded");
      continue;
    }
    const auto again = larder::nvmf::parse_nvme_url(url->to_string());
    larder::fuzz::require(again.has_value() && *again == *url, "a URL means what it says");
  }
  return 0;
}
