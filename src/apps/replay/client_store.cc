// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "apps/replay/store.h"
#include "base/units.h"

namespace larder::apps {
namespace {

// Anonymous pages: aligned, and given back as a whole.
class PrivatePages {
 public:
  static Result<PrivatePages> map(std::uint64_t bytes) {
    void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
      return fail(Code::kExhausted,
                  fmt::format("no memory for a buffer of {}: {}; lower --workers or --batch-bytes",
                              base::format_size(bytes), std::strerror(errno)));
    }
    return PrivatePages(MutableBytes(static_cast<std::byte*>(at), bytes));
  }
  PrivatePages(PrivatePages&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  PrivatePages& operator=(PrivatePages&&) = delete;
  ~PrivatePages() {
    if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
  }
  MutableBytes bytes() const noexcept { return bytes_; }

 private:
  explicit PrivatePages(MutableBytes bytes) : bytes_(bytes) {}
  MutableBytes bytes_;
};

class ClientStore final : public BlockStore {
 public:
  explicit ClientStore(std::unique_ptr<Client> client) : client_(std::move(client)) {}

  Result<std::size_t> match_prefix(Keys keys) override {
    LARDER_ASSIGN(const PrefixMatch match, client_->match_prefix(keys));
    return match.keys;
  }

  Result<std::vector<GetResult>> get(Keys keys, std::uint64_t block_bytes,
                                     MutableBytes out) override {
    destinations_.clear();
    gets_.clear();
    destinations_.reserve(keys.size());  // the items below point into it
    for (std::size_t i = 0; i < keys.size(); ++i) {
      destinations_.push_back(out.subspan(i * block_bytes, block_bytes));
      gets_.push_back({keys[i], {&destinations_[i], 1}});
    }
    return client_->get_into(gets_);
  }

  Result<std::vector<PutResult>> put(Keys keys, std::uint64_t block_bytes, ConstBytes in) override {
    sources_.clear();
    puts_.clear();
    sources_.reserve(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      sources_.push_back(in.subspan(i * block_bytes, block_bytes));
      puts_.push_back({keys[i], {&sources_[i], 1}});
    }
    return client_->put(puts_);
  }

  // Shared with the node where that saves a copy, else private and registered.
  Result<MutableBytes> buffer(std::uint64_t bytes) override {
    if (client_->path() == Path::kSharedMemory) {
      if (auto shared = client_->alloc_buffer(bytes)) {
        shared_.emplace(std::move(*shared));
        return shared_->bytes();
      }
    }
    LARDER_ASSIGN(auto pages, PrivatePages::map(bytes));
    private_.emplace(std::move(pages));
    LARDER_TRY(client_->register_buffer(private_->bytes()));
    return private_->bytes();
  }

 private:
  // Declared before the buffers, hence destroyed after them: they are the client's to know.
  std::unique_ptr<Client> client_;
  std::optional<SharedBuffer> shared_;
  std::optional<PrivatePages> private_;
  std::vector<MutableBytes> destinations_;
  std::vector<ConstBytes> sources_;
  std::vector<GetItem> gets_;
  std::vector<PutItem> puts_;
};

}  // namespace

Result<std::unique_ptr<BlockStore>> make_client_store(std::unique_ptr<Client> client) {
  if (client == nullptr) return fail(Code::kInvalidArgument, "a replay needs a connected client");
  return std::make_unique<ClientStore>(std::move(client));
}

}  // namespace larder::apps
