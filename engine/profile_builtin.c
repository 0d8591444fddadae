/* Head profiles that come with roco, so that the default model starts with one. Data and its lookup; any thread.
 *
 * Measured in float32 with the definition in numpy, tests/golden/roco_reference.py profile, on tests/data/doc.txt.
 */
#include "engine/profile.h"

#include <string.h>

#define N_LAYERS   30u
#define N_KV_HEADS 3u

/* SmolLM2-135M-Instruct, the Q4_1 file that scripts/fetch-model fetches. */
static const float smollm2_135m[N_LAYERS * N_KV_HEADS] = {
    0.002145f, 0.001037f, 0.001802f, 0.001672f, 0.000837f, 0.000824f, 0.001351f, 0.047795f, 0.002941f, 0.004016f,
    0.005434f, 0.004373f, 0.009555f, 0.005051f, 0.00522f,  0.005064f, 0.010108f, 0.004425f, 0.006435f, 0.005781f,
    0.008643f, 0.005951f, 0.006128f, 0.488916f, 0.11696f,  0.006711f, 0.004557f, 0.03019f,  0.003374f, 0.002618f,
    0.001126f, 0.002709f, 0.002998f, 0.000112f, 0.00138f,  0.00078f,  0.00462f,  0.004908f, 0.003284f, 0.001858f,
    0.002018f, 0.001996f, 0.05341f,  0.63292f,  0.013814f, 0.006259f, 0.011726f, 0.306325f, 0.00712f,  0.002723f,
    0.003685f, 0.049016f, 0.635859f, 0.006958f, 0.004509f, 0.005799f, 0.777661f, 0.003683f, 0.042067f, 0.002944f,
    0.007324f, 0.278079f, 0.550786f, 0.04408f,  0.058297f, 0.201868f, 0.024394f, 0.085858f, 0.186945f, 0.358837f,
    0.012323f, 0.235363f, 0.106204f, 0.063694f, 0.064797f, 0.033284f, 0.003276f, 0.002913f, 0.072406f, 0.058588f,
    0.003296f, 0.016035f, 0.002017f, 0.003327f, 0.025472f, 0.003135f, 0.003584f, 0.00666f,  0.005877f, 0.017576f,
};
#define SMOLLM2_135M_Q4_1 0x9286a712319a4a62u

bool roco_profile_builtin(const roco_source *source, const roco_engine_info *info, float *scores)
{
    if (info->n_layers != N_LAYERS || info->n_kv_heads != N_KV_HEADS ||
        roco_source_fingerprint(source) != SMOLLM2_135M_Q4_1)
        return false;
    memcpy(scores, smollm2_135m, sizeof smollm2_135m);
    return true;
}
