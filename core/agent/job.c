#include "agent/job.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "agent/put.h"
#include "base/varint.h"

enum { NAME_MAX_BYTES = 64, VALUE_MAX_BYTES = 4096 };

static const char *const ranks[] = {
        "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};

/*
 * What is recorded: an explicit list, because a variable that is not known here may be a secret.
 * torchrun, Open MPI, PMI, Slurm, PBS; then the sizes and places in groups that training scripts
 * pass to Megatron-LM, DeepSpeed, torchtitan and vLLM by these names; then the settings of
 * PyTorch's allocator.
 */
static const char *const variables[] = {
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "GROUP_WORLD_SIZE",
        "ROLE_RANK",
        "ROLE_WORLD_SIZE",
        "ROLE_NAME",
        "NODE_RANK",
        "TORCHELASTIC_RESTART_COUNT",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_NODE_RANK",
        "PMIX_RANK",
        "PMI_RANK",
        "PMI_SIZE",
        "MPI_LOCALRANKID",
        "SLURM_JOB_ID",
        "SLURM_STEP_ID",
        "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_LOCALID",
        "SLURM_NODEID",
        "SLURM_ARRAY_TASK_ID",
        "PBS_JOBID",
        "TP_RANK",
        "TP_SIZE",
        "PP_RANK",
        "PP_SIZE",
        "DP_RANK",
        "DP_SIZE",
        "CP_RANK",
        "CP_SIZE",
        "EP_RANK",
        "EP_SIZE",
        "TP",
        "PP",
        "DP",
        "CP",
        "EP",
        "TENSOR_PARALLEL_SIZE",
        "PIPELINE_PARALLEL_SIZE",
        "DATA_PARALLEL_SIZE",
        "CONTEXT_PARALLEL_SIZE",
        "EXPERT_PARALLEL_SIZE",
        "TENSOR_MODEL_PARALLEL_SIZE",
        "PIPELINE_MODEL_PARALLEL_SIZE",
        "EXPERT_MODEL_PARALLEL_SIZE",
        "VIRTUAL_PIPELINE_MODEL_PARALLEL_SIZE",
        "VLLM_DP_RANK",
        "VLLM_DP_SIZE",
        "PYTORCH_ALLOC_CONF",
        "PYTORCH_CUDA_ALLOC_CONF",
        "CUDA_VISIBLE_DEVICES",
};

static uint32_t number(const char *text)
{
	char *end;
	if (!text || *text < '0' || *text > '9')
		return UINT32_MAX;
	unsigned long value = strtoul(text, &end, 10);
	return *end || value >= UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

uint32_t gm_agent_job_rank(void)
{
	uint32_t rank = UINT32_MAX;
	for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]) && rank == UINT32_MAX; i++)
		rank = number(getenv(ranks[i]));
	return rank;
}

static uint8_t *put_string(uint8_t *at, const char *text, size_t most)
{
	size_t length = strnlen(text, most);
	at = gm_put_varint(at, length);
	memcpy(at, text, length);
	return at + length;
}

void gm_agent_setting_put(const char *name, const char *value)
{
	uint8_t bytes[NAME_MAX_BYTES + VALUE_MAX_BYTES + 20];
	uint8_t *at = put_string(bytes, name, NAME_MAX_BYTES);
	at = put_string(at, value, VALUE_MAX_BYTES);
	gm_agent_put(GM_AGENT_SETTING, 0, bytes, (size_t)(at - bytes));
}

void gm_agent_job_put(void)
{
	struct utsname system;
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const char *value = getenv(variables[i]);
		if (value && *value)
			gm_agent_setting_put(variables[i], value);
	}
	if (gm_agent_job_rank() != UINT32_MAX && uname(&system) == 0)
		gm_agent_setting_put("host", system.nodename);
}
