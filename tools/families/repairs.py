"""What mlx-lm gets wrong and is put right in memory: each is a function (model, config), named by a row's `repair`."""
