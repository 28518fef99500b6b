"""From logits to a loss, its gradient, or the sign of a difference of losses.

Cores: softmax_loss, loss_sign.
"""
