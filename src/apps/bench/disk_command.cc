// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "apps/bench/commands.h"
#include "apps/bench/disk_case.h"
#include "apps/bench/disk_file.h"
#include "apps/bench/disk_probe.h"
#include "apps/bench/limits.h"
#include "apps/bench/memory.h"
#include "apps/bench/nvmf_probe.h"
#include "apps/bench/nvmf_target_process.h"
#include "apps/console.h"
#include "base/units.h"
#include "nvmf/host/device.h"

namespace larder::apps {
namespace {

constexpr std::uint64_t kMemoryBytes = 256ULL << 20U;  // of callers and of the bare disk
// A set has four times what DRAM holds; the namespace has room for two, and some to spare.
constexpr std::uint64_t kSetOfHot = 4;
constexpr std::uint64_t kRemoteOfHot = 11;
constexpr std::size_t kRawDepth = 32;
constexpr std::uint64_t kFlushEvery = 128U << 20U;  // as the node's groups

// A folder for the node's disk, gone when we are.
class DiskFolder {
 public:
  explicit DiskFolder(const std::string& parent)
      : path_(fmt::format("{}/larder-bench-disk-{}", parent, ::getpid())) {}
  ~DiskFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  DiskFolder(const DiskFolder&) = delete;
  DiskFolder& operator=(const DiskFolder&) = delete;
  const std::string& path() const noexcept { return path_; }

 private:
  const std::string path_;
};

// What the cases stand beside: as many operations in flight as the case allows the node.
class BareDisk {
 public:
  virtual ~BareDisk() = default;
  // `set`: what the gets of the case read.
  virtual Result<std::vector<ProbePtr>> beside(const DiskCase& name, const Dataset* set) = 0;
};

class DiskRun {
 public:
  DiskRun(const BenchOptions& options, const NodeSession& session, BareDisk& bare,
          std::span<std::byte> ours)
      : options_(options),
        bare_(bare),
        context_{session, ours, options.hot_bytes, nullptr, options.verify} {}

  Result<BenchRow> measure(const DiskCase& name) {
    if (name.op == DiskOp::kGet) LARDER_TRY(bring_set(name.bytes));
    std::vector<ProbePtr> limits;
    if (options_.limits && name.bar) {
      LARDER_ASSIGN(limits, bare_.beside(name, set_ ? &*set_ : nullptr));
    }
    LARDER_ASSIGN(const ProbePtr ours, make_disk_probe(name, context_));
    LARDER_ASSIGN(const Pair pair, run_pair(limits, name.measure, *ours, options_.rhythm()));
    BenchRow row;
    row.name = name.name;
    row.ours = pair.ours;
    row.measure = name.measure;
    if (limits.empty()) return row;
    row.limit = pair.limit;
    row.limit_name = pair.limit_name;
    row.ratio = ratio_of(name.measure, pair.ours, pair.limit);
    row.bar = name.bar;
    row.verdict = judge(row.bar, row.ratio);
    return row;
  }

 private:
  // The set of one size at a time, on disk.
  Result<void> bring_set(std::uint64_t bytes) {
    if (set_ && set_->value_bytes() == bytes) return {};
    LARDER_ASSIGN(const auto client, context_.session.connect(BenchPath::kLocal, 0));
    if (set_) LARDER_TRY(set_->remove(*client));
    LARDER_ASSIGN(set_,
                  Dataset::store(*client, bytes,
                                 static_cast<std::size_t>(kSetOfHot * context_.hot_bytes / bytes)));
    context_.data = &*set_;
    LARDER_TRY(wait_on_disk(*client, set_->keys()));
    return push_out_of_dram(*client, set_->keys(), context_);
  }

  const BenchOptions& options_;
  BareDisk& bare_;
  DiskContext context_;
  std::optional<Dataset> set_;
};

// A file beside the node's own.
class BareFile final : public BareDisk {
 public:
  // `file` is for writes; `store` is the node's own.
  BareFile(const BenchOptions& options, const DiskFile& file, std::string store,
           std::span<std::byte> memory)
      : options_(options), file_(file), store_(std::move(store)), memory_(memory) {}

  // Both ways to keep them in flight. Reads are of the same bytes: a disk, or the machine below a
  // virtual one, may have others in a cache.
  Result<std::vector<ProbePtr>> beside(const DiskCase& name, const Dataset* set) override {
    const DiskFile* file = &file_;
    if (name.op == DiskOp::kGet) {
      const std::uint64_t bytes = set->value_bytes() * set->keys().size();
      LARDER_ASSIGN(stored_, DiskFile::open(store_, data_begin(), bytes / 16 * 15));
      file = stored_.get();
    }
    std::vector<ProbePtr> limits;
    DiskShape shape;
    shape.write = name.op == DiskOp::kOffload;
    shape.block_bytes = name.bytes;
    shape.flush_every = name.flushed ? kFlushEvery : 0;
    shape.depth = name.batch == 1 ? 1 : kRawDepth;
    for (const bool refill : {false, true}) {
      if (refill && name.batch == 1) continue;
      shape.refill = refill;
      LARDER_ASSIGN(ProbePtr limit, make_disk_limit(*file, shape, memory_));
      limits.push_back(std::move(limit));
    }
    return limits;
  }

 private:
  // Where values begin in a store (docs/formats/extent.md): behind a header cell of 512 bytes for
  // every 64 KiB. They fill it from there.
  std::uint64_t data_begin() const {
    return 4 * options_.file_bytes / (64U << 10U) * 512 + (2U << 20U);
  }

  const BenchOptions& options_;
  const DiskFile& file_;
  const std::string store_;
  std::unique_ptr<DiskFile> stored_;
  std::span<std::byte> memory_;
};

// The namespace that the node keeps its records on, read by a second host.
class BareNamespace final : public BareDisk {
 public:
  BareNamespace(std::shared_ptr<nvmf::NvmeDevice> device, std::span<std::byte> memory)
      : device_(std::move(device)), memory_(memory) {}

  Result<std::vector<ProbePtr>> beside(const DiskCase& name, const Dataset*) override {
    NvmfCase bare;
    bare.bytes = name.bytes;
    bare.depth = name.batch == 1 ? 1 : kRawDepth;
    bare.name = fmt::format("nvme-tcp read {} depth {}", base::format_size(bare.bytes), bare.depth);
    std::vector<ProbePtr> limits;
    LARDER_ASSIGN(ProbePtr limit, make_nvmf_probe(bare, *device_, memory_));
    limits.push_back(std::move(limit));
    return limits;
  }

 private:
  std::shared_ptr<nvmf::NvmeDevice> device_;
  std::span<std::byte> memory_;
};

}  // namespace

namespace {

Result<void> run_cases(const BenchOptions& options, const NodeSession& session, BareDisk& bare) {
  LARDER_ASSIGN(const auto cases, select_disk_cases(options.cases, options.remote));
  LARDER_ASSIGN(const Mapping ours, Mapping::private_memory(kMemoryBytes));
  DiskRun run(options, session, bare, ours.bytes());
  std::vector<BenchRow> rows;
  LARDER_TRY(print(table_head(true)));
  for (const DiskCase& name : cases) {
    auto row = run.measure(name);
    if (!row) {
      return fail(row.error().code(), fmt::format("case {}: {}", name.name, row.error().message()));
    }
    LARDER_TRY(show_row(rows, std::move(*row)));
  }
  if (!options.json_file.empty()) LARDER_TRY(write_json(options.json_file, rows));
  return judge_all(rows, options.check);
}

Result<void> bench_file(const BenchOptions& options) {
  const DiskFolder folder(options.directory);
  BenchOptions node = options;
  node.addresses.clear();
  node.node_flags.push_back(
      fmt::format("--cold.disks={}:{}", folder.path(), base::format_size(4 * options.file_bytes)));
  LARDER_ASSIGN(const auto session, NodeSession::open(node, options.hot_bytes));
  LARDER_ASSIGN(const auto file,
                DiskFile::create(options.directory, options.file_bytes, options.seed));
  LARDER_ASSIGN(const Mapping raw, Mapping::private_memory(kMemoryBytes));
  BareFile bare(options, *file, folder.path() + "/larder.store", raw.bytes());
  return run_cases(options, *session, bare);
}

Result<void> bench_namespace(const BenchOptions& options) {
  LARDER_ASSIGN(const auto target, NvmfTargetProcess::start(kRemoteOfHot * options.hot_bytes));
  BenchOptions node = options;
  node.addresses.clear();
  node.node_flags.push_back("--cold.disks=" + target->url());
  LARDER_ASSIGN(const auto session, NodeSession::open(node, options.hot_bytes));
  nvmf::NvmeDeviceOptions remote;
  LARDER_ASSIGN(remote.url, nvmf::parse_nvme_url(target->url()));
  LARDER_ASSIGN(auto device, nvmf::NvmeDevice::open(remote));
  LARDER_ASSIGN(const Mapping raw, Mapping::private_memory(kMemoryBytes));
  BareNamespace bare(std::move(device), raw.bytes());
  return run_cases(options, *session, bare);
}

}  // namespace

Result<void> list_disk_cases(const BenchOptions& options) {
  LARDER_ASSIGN(const auto cases, select_disk_cases(options.cases, options.remote));
  std::string text;
  for (const DiskCase& name : cases) text += name.name + "\n";
  return print(text);
}

Result<void> bench_disk(const BenchOptions& options) {
  LARDER_TRY(select_disk_cases(options.cases, options.remote));  // before the work
  return options.remote ? bench_namespace(options) : bench_file(options);
}

}  // namespace larder::apps
