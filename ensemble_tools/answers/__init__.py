"""Requests and answers as tensors, and answers of a recommender as ranked lists: how alike?"""
