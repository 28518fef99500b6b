// SPDX-License-Identifier: Apache-2.0
// Written by 'seedbed drivers': what the driver knows of each core.
#include "seedbed_axi.h"

static const char *const gemv_texts[] = {
    "no error",
    "columns or rows are 0, or there are more columns than the core has",
    "the vector has fewer or more beats than its columns",
    "a row has fewer or more beats than its columns",
    "the job was aborted",
};

const struct seedbed_axi_core seedbed_gemv_axi = {
    .name = "gemv_axi",
    .inputs = 2,
    .streams = 3,
    .registers = true,
    .abort = 2,
    .samples = 3,
    .results = 2,
    .may_miss = 0,
    .miss_without_steps = 0,
    .texts = gemv_texts,
    .statuses = 5,
};

static const char *const forward_cache_texts[] = {
    "no error",
    "the entry was not stored since the last clear or reset",
    "there is no such index or kind",
    "the memory answered an error, a burst of another length, too late, or unasked",
    "an entry has fewer or more beats than it should",
};

const struct seedbed_axi_core seedbed_forward_cache_axi = {
    .name = "forward_cache_axi",
    .inputs = 2,
    .streams = 4,
    .registers = false,
    .abort = 0,
    .samples = 4,
    .results = 2,
    .may_miss = 8,
    .miss_without_steps = 0,
    .texts = forward_cache_texts,
    .statuses = 5,
};

static const char *const instantft_texts[] = {
    "no error",
    "the command has no such kind, or samples, epochs or batch are out of range",
    "a sample has fewer or more beats than it should",
    "the cache has no entry of this index",
    "the memory answered an error, a burst of another length, too late, or unasked",
    "a packet of parameters has fewer or more words than its rows",
};

const struct seedbed_axi_core seedbed_instantft_axi = {
    .name = "instantft_axi",
    .inputs = 2,
    .streams = 4,
    .registers = true,
    .abort = 0,
    .samples = 1,
    .results = 2,
    .may_miss = 8,
    .miss_without_steps = 0,
    .texts = instantft_texts,
    .statuses = 6,
};

static const char *const zo_trainer_texts[] = {
    "no error",
    "the command has no such kind, or samples, epochs or batch are out of range",
    "a sample has fewer or more beats than it should",
    "no whole packet of parameters has come, or a reset ended an update",
    "no schedule has come, or it is not allowed",
};

const struct seedbed_axi_core seedbed_zo_trainer_axi = {
    .name = "zo_trainer_axi",
    .inputs = 2,
    .streams = 5,
    .registers = true,
    .abort = 0,
    .samples = 1,
    .results = 2,
    .may_miss = 16,
    .miss_without_steps = 0,
    .texts = zo_trainer_texts,
    .statuses = 5,
};

static const char *const sparse_trainer_texts[] = {
    "no error",
    "the command has no such kind, or samples, epochs or batch are out of range",
    "no table of layers has come, or it is not allowed",
    "a sample has fewer or more beats than it should",
    "the memory answered an error, a burst of another length, too late, or unasked",
    "an entry is before the entry before it",
    "an entry is at the place of the entry before it",
    "an entry is outside its layer",
    "no entries are loaded",
    "the command was aborted",
};

const struct seedbed_axi_core seedbed_sparse_trainer_axi = {
    .name = "sparse_trainer_axi",
    .inputs = 3,
    .streams = 6,
    .registers = true,
    .abort = 2,
    .samples = 6,
    .results = 3,
    .may_miss = 32,
    .miss_without_steps = 16,
    .texts = sparse_trainer_texts,
    .statuses = 10,
};

static const char *const stream_engine_texts[] = {
    "no error",
    "the memory answered an error, a burst of another length, too late, or unasked",
    "the program is damaged, or is for another core",
    "the program needs more than the core has",
    "no program is loaded",
    "the block or its context is too long, or a token is not in the table",
};

const struct seedbed_axi_core seedbed_stream_engine_axi = {
    .name = "stream_engine_axi",
    .inputs = 1,
    .streams = 2,
    .registers = true,
    .abort = 0,
    .samples = 2,
    .results = 1,
    .may_miss = 0,
    .miss_without_steps = 0,
    .texts = stream_engine_texts,
    .statuses = 6,
};

static const char *const stream_trainer_texts[] = {
    "no error",
    "the memory answered an error, a burst of another length, too late, or unasked",
    "the program is damaged, or is for another core, or the range of kept weights is not in it",
    "the program needs more than the core has",
    "no program is loaded",
    "the block or its context is too long, or a token is not in the table",
    "the training has no samples, or numbers that are out of range",
    "the command was aborted",
};

const struct seedbed_axi_core seedbed_stream_trainer_axi = {
    .name = "stream_trainer_axi",
    .inputs = 1,
    .streams = 3,
    .registers = true,
    .abort = 2,
    .samples = 3,
    .results = 1,
    .may_miss = 0,
    .miss_without_steps = 0,
    .texts = stream_trainer_texts,
    .statuses = 8,
};
