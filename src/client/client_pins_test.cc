// SPDX-License-Identifier: Apache-2.0
// Pins, leases, back-pressure, values read in place, and memory that clients offer.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "client/client_testing.h"

namespace larder::client {
namespace {

using std::chrono::milliseconds;

class ClientPinTest : public ClientTest {
 protected:
  std::uint32_t pins_of(std::string_view key) { return client_->stat(key)->pins; }
  // Puts values of `bytes` under "PREFIX-0", "PREFIX-1", ... until one is refused; how many fit.
  std::size_t fill(const std::string& prefix, std::size_t bytes, bool pinned) {
    for (std::size_t i = 0;; ++i) {
      const std::string key = prefix + "-" + std::to_string(i);
      const auto stored = client_->put(key, make_value(i, bytes));
      if (!stored) {
        last_error_ = stored.error();
        return i;
      }
      if (pinned && !client_->pin(key)) return i;
    }
  }
  Error last_error_{Code::kOk};
};
INSTANTIATE_TEST_SUITE_P(Paths, ClientPinTest, kEveryPath, path_test_name);

TEST_P(ClientPinTest, PinsNest) {
  put("a", make_value(1, 1000));
  put("b", make_value(2, 1000));
  const std::vector<std::string_view> keys = {"a", "absent", "b", "a"};
  const auto pinned = client_->pin(keys);
  ASSERT_TRUE(pinned) << words(pinned);
  EXPECT_EQ(*pinned, (std::vector<Code>{Code::kOk, Code::kNotFound, Code::kOk, Code::kOk}));
  EXPECT_EQ(pins_of("a"), 2U);
  EXPECT_EQ(pins_of("b"), 1U);
  EXPECT_EQ(node().pins(), 2U);
  ASSERT_TRUE(client_->unpin("a"));
  EXPECT_EQ(pins_of("a"), 1U);
  ASSERT_TRUE(client_->unpin("a"));
  EXPECT_EQ(pins_of("a"), 0U);
  EXPECT_EQ(code_of(client_->unpin("a")), Code::kNotFound);
  EXPECT_EQ(code_of(client_->unpin("absent")), Code::kNotFound);
  const auto unpinned = client_->unpin(std::span(keys).subspan(1, 2));
  ASSERT_TRUE(unpinned) << words(unpinned);
  EXPECT_EQ(*unpinned, (std::vector<Code>{Code::kNotFound, Code::kOk}));
  EXPECT_EQ(node().pins(), 0U);
}

TEST_P(ClientPinTest, LeasesEnd) {
  put("a", make_value(1, 1000));
  put("b", make_value(2, 1000));
  ASSERT_TRUE(client_->pin("a", milliseconds(30)));
  ASSERT_TRUE(client_->pin("b"));
  EXPECT_EQ(node().pins(), 2U);
  EXPECT_TRUE(soon([this] {
    node().tick();
    return pins_of("a") == 0;
  }));
  EXPECT_EQ(pins_of("b"), 1U);  // without a lease it stays
  EXPECT_EQ(code_of(client_->unpin("a")), Code::kNotFound);
  // A later pin makes it longer, never shorter.
  ASSERT_TRUE(client_->pin("a", milliseconds(20)));
  ASSERT_TRUE(client_->pin("a", std::chrono::hours(1)));
  ASSERT_TRUE(client_->pin("a", milliseconds(1)));
  const env::Nanos then = env::monotonic_now() + 50 * env::kMilli;
  EXPECT_TRUE(soon([then] { return env::monotonic_now() > then; }));
  node().tick();
  EXPECT_EQ(pins_of("a"), 3U);
  EXPECT_EQ(code_of(client_->pin("a", milliseconds(-1))), Code::kInvalidArgument);
  EXPECT_EQ(code_of(client_->pin("a", std::chrono::hours(25))), Code::kInvalidArgument);
}

TEST_P(ClientPinTest, PinsEndWithTheirClient) {
  put("a", make_value(1, 1000));
  auto other = nodes_.connect(GetParam());
  ASSERT_TRUE(other);
  ASSERT_TRUE(other->pin("a"));
  ASSERT_TRUE(other->pin("a"));
  ASSERT_TRUE(client_->pin("a"));
  EXPECT_EQ(pins_of("a"), 3U);
  EXPECT_EQ(code_of(other->unpin("b")), Code::kNotFound);
  other.reset();
  EXPECT_TRUE(soon([this] { return pins_of("a") == 1; }));
  ASSERT_TRUE(client_->unpin("a"));
}

TEST_P(ClientPinTest, FullOfPinsIsBackPressureAndUnpinMendsIt) {
  constexpr std::size_t kBytes = 1 << 20;
  const std::size_t fit = fill("pinned", kBytes, true);
  EXPECT_GE(fit, NodeFixture::kCapacity / kBytes - 1);
  EXPECT_EQ(last_error_.code(), Code::kBackpressure) << last_error_.to_string();
  EXPECT_FALSE(last_error_.message().empty());
  EXPECT_TRUE(is_retryable(last_error_.code()));
  // In a batch it is the item's own, and a neighbour that fits is stored.
  const Bytes large = make_value(1, kBytes);
  const Bytes same_as_first = make_value(0, kBytes);
  const ConstBytes pieces[] = {large, same_as_first};
  const std::vector<PutItem> items = {{"no-room", std::span(&pieces[0], 1)},
                                      {"pinned-0", std::span(&pieces[1], 1)}};
  const auto stored = client_->put(items);
  ASSERT_TRUE(stored) << words(stored);
  EXPECT_EQ((*stored)[0].code, Code::kBackpressure);
  EXPECT_EQ((*stored)[1].code, Code::kOk);
  EXPECT_TRUE((*stored)[1].already_stored);
  for (std::size_t i = 0; i < fit; ++i) {
    expect_value("pinned-" + std::to_string(i), make_value(i, kBytes));
  }
  ASSERT_TRUE(client_->unpin("pinned-0"));
  put("no-room", large);
  expect_value("no-room", large);
  EXPECT_FALSE(client_->exists("pinned-0").value());
  EXPECT_EQ(node().reserved_bytes(), 0U);
  EXPECT_EQ(node().used_bytes() + node().free_bytes(), node().capacity_bytes());
}

TEST_P(ClientPinTest, WithoutPinsTheOldestMakeRoom) {
  constexpr std::size_t kBytes = 300'000;
  for (std::size_t i = 0; i < 150; ++i) {
    put("e-" + std::to_string(i), make_value(i, kBytes));
    expect_value("e-" + std::to_string(i), make_value(i, kBytes));
  }
  EXPECT_GT(client_->info()->evictions, 50U);
  std::size_t hits = 0;
  for (std::size_t i = 0; i < 150; ++i) {
    const auto got = client_->get("e-" + std::to_string(i));
    if (!got) {
      EXPECT_EQ(code_of(got), Code::kNotFound);
      continue;
    }
    ++hits;
    EXPECT_TRUE(same(got->bytes(), make_value(i, kBytes)));
  }
  EXPECT_GT(hits, 10U);
}

TEST_P(ClientPinTest, ViewsReadInPlace) {
  const Bytes value = make_value(1, 123'456);
  put("a", value);
  auto view = client_->view("a");
  if (GetParam() != Path::kSharedMemory) {
    EXPECT_EQ(code_of(view), Code::kUnsupported);
    EXPECT_NE(words(view).find("get_into"), std::string::npos) << words(view);
    return;
  }
  ASSERT_TRUE(view) << words(view);
  EXPECT_TRUE(view->valid());
  EXPECT_TRUE(same(view->bytes(), value));
  EXPECT_EQ(pins_of("a"), 1U);
  EXPECT_EQ(code_of(client_->view("absent")), Code::kNotFound);
  // Whatever happens to the key, the bytes stay while the view lives.
  put("a", make_value(2, 1000));
  fill("fill", 1 << 20, true);
  EXPECT_TRUE(same(view->bytes(), value));
  static_cast<void>(client_->remove("a").has_value());  // it may have been evicted before
  EXPECT_FALSE(client_->exists("a").value());
  EXPECT_TRUE(view->valid());
  EXPECT_TRUE(same(view->bytes(), value));
  const std::uint64_t used = node().used_bytes();
  PinnedView moved = std::move(*view);
  EXPECT_FALSE(view->valid());
  EXPECT_TRUE(view->bytes().empty());
  EXPECT_TRUE(same(moved.bytes(), value));
  { const PinnedView last = std::move(moved); }
  EXPECT_LT(node().used_bytes(), used);
}

TEST_P(ClientPinTest, AViewMayOutliveItsClient) {
  if (GetParam() != Path::kSharedMemory) return;
  const Bytes value = make_value(1, 5000);
  put("a", value);
  auto view = client_->view("a");
  ASSERT_TRUE(view) << words(view);
  client_.reset();
  EXPECT_TRUE(same(view->bytes(), value));
  EXPECT_TRUE(view->valid());
  EXPECT_EQ(node().pins(), 1U);
}

TEST_P(ClientPinTest, PutsFromSharedBuffers) {
  auto buffer = client_->alloc_buffer(2 << 20);
  ASSERT_TRUE(buffer) << words(buffer);
  const MutableBytes memory = buffer->bytes();
  ASSERT_EQ(memory.size(), 2U << 20);
  const Bytes value = make_value(5, memory.size());
  std::copy(value.begin(), value.end(), memory.begin());
  put("whole", memory);
  expect_value("whole", value);
  // Pieces of it, out of order, with empty ones; and one that lies elsewhere.
  const Bytes elsewhere = make_value(6, 70'000);
  const ConstBytes pieces[] = {memory.subspan(1'000'000, 400'000), memory.first(0),
                               memory.subspan(3, 1), memory.last(100'000)};
  const ConstBytes mixed[] = {memory.first(50'000), elsewhere};
  const ConstBytes plain = elsewhere;
  const std::vector<PutItem> items = {{"pieces", pieces}, {"again", pieces}};
  for (const std::vector<PutItem>& batch :
       {items, std::vector<PutItem>{{"mixed", mixed}, {"plain", std::span(&plain, 1)}}}) {
    const auto stored = client_->put(batch);
    ASSERT_TRUE(stored) << words(stored);
    for (const PutResult& result : *stored) EXPECT_EQ(result.code, Code::kOk) << result.message;
  }
  Bytes expected;
  for (const ConstBytes piece : pieces) expected.insert(expected.end(), piece.begin(), piece.end());
  expect_value("pieces", expected);
  expect_value("again", expected);
  expected.assign(value.begin(), value.begin() + 50'000);
  expected.insert(expected.end(), elsewhere.begin(), elsewhere.end());
  expect_value("mixed", expected);
  expect_value("plain", elsewhere);
  // It may be written again at once: the node has copied what it took.
  std::fill(memory.begin(), memory.end(), std::byte{1});
  expect_value("whole", value);
  // And it is a destination like any other.
  const auto got = client_->get_into("whole", memory);
  ASSERT_TRUE(got) << words(got);
  EXPECT_TRUE(same(memory, value));
  EXPECT_EQ(code_of(client_->alloc_buffer(0)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(client_->alloc_buffer(1ULL << 60)), Code::kInvalidArgument);
}

TEST_P(ClientPinTest, OnlyMappedMemoryIsRegistered) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* area =
      ::mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(area, MAP_FAILED);
  const MutableBytes range(static_cast<std::byte*>(area), 4 * page);
  EXPECT_TRUE(client_->register_buffer(range));
  EXPECT_EQ(code_of(client_->register_buffer(range)), Code::kConflict);
  EXPECT_TRUE(client_->register_buffer(range.subspan(10, 100)));
  EXPECT_TRUE(client_->unregister_buffer(range));
  EXPECT_EQ(code_of(client_->unregister_buffer(range)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(client_->register_buffer({})), Code::kInvalidArgument);
  ASSERT_EQ(::mprotect(range.data() + page, page, PROT_READ), 0);
  EXPECT_EQ(code_of(client_->register_buffer(range)), Code::kInvalidArgument);
  ASSERT_EQ(::munmap(range.data() + 2 * page, page), 0);
  const auto refused = client_->register_buffer(range.subspan(2 * page));
  EXPECT_EQ(code_of(refused), Code::kInvalidArgument);
  EXPECT_NE(words(refused).find("mapped"), std::string::npos) << words(refused);
  ASSERT_EQ(::munmap(area, 4 * page), 0);
}

TEST_P(ClientPinTest, UnmappedBuffersOfACallAreErrorsAndNotTheEnd) {
  if (GetParam() == Path::kSharedMemory) return;  // the copy is the process's own there
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const Bytes value = make_value(1, 3 * page);
  put("a", value);
  void* area = ::mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(area, MAP_FAILED);
  CallOptions quick;
  quick.timeout = milliseconds(2000);
  const MutableBytes bad(static_cast<std::byte*>(area), 3 * page);
  const auto got = client_->get_into("a", bad.first(page), quick);
  EXPECT_EQ(code_of(got), Code::kInvalidArgument);  // too small: never touched
  ASSERT_EQ(::munmap(area, page), 0);
  expect_value("a", value);
}

}  // namespace
}  // namespace larder::client
