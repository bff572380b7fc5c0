"""A small diffusion model of diffusers takes its steps."""

import torch
from diffusers import DDIMScheduler, UNet2DConditionModel

model = UNet2DConditionModel(
    sample_size=16,
    block_out_channels=(32, 64),
    layers_per_block=1,
    cross_attention_dim=32,
    down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
    up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    attention_head_dim=8,
    norm_num_groups=8,
).eval()
scheduler = DDIMScheduler()
scheduler.set_timesteps(3)
latents, prompt = torch.randn(2, 4, 16, 16), torch.randn(2, 8, 32)
with torch.no_grad():
    for step in scheduler.timesteps:
        noise = model(latents, step, encoder_hidden_states=prompt).sample
        latents = scheduler.step(noise, step, latents).prev_sample
