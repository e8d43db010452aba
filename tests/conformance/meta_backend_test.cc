// SPDX-License-Identifier: Apache-2.0
#include "meta_backend_suite.h"

namespace larder::meta {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Memory, MetaBackend,
    testing::Values(BackendUnderTest{"Private", [] { return open_backend("memory://"); }},
                    BackendUnderTest{"Named", [] { return open_backend("memory://conformance"); }}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace larder::meta
