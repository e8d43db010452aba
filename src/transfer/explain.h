// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "transfer/batch.h"
#include "transfer/selector.h"

namespace larder::transfer {

// Why a task went the way it did, as one JSON object: its rule and transport, class and intent,
// charges of each stage, pieces, attempts, and how long it waited and took.
std::string explain_task(const Task& task, const Selector& selector);

}  // namespace larder::transfer
