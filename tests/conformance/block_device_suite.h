// SPDX-License-Identifier: Apache-2.0
// What every block device must do, one header for each theme. A test binary includes this and
// instantiates BlockDeviceConformance with one DeviceUnderTest per implementation.
#pragma once

#include "block_device_ends.h"
#include "block_device_model.h"
#include "block_device_moves.h"
#include "block_device_refusals.h"
